"""Nested tensors in the jagged layout: as inputs, made inside, taken apart; attention over them."""

from typing import Any

import torch
from torch.nn import functional

from subclasses import program
from subclasses.classes import numbers

NT = torch.nested


def offsets(*lengths: int) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def ragged(*lengths: int, width: int = 4, grad: bool = False) -> Any:
    values = numbers(sum(lengths), width).requires_grad_(grad)
    return NT.nested_tensor_from_jagged(values, offsets(*lengths))


def leaf(*lengths: int, width: int = 4) -> Any:
    parts = [numbers(length, width) / length for length in lengths]
    return NT.nested_tensor(parts, layout=torch.jagged, requires_grad=True)


class Attention(torch.nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.heads = heads
        self.weights = torch.nn.ParameterList(torch.randn(width, width, generator=generator) for _ in range(4))

    def forward(self, x: Any) -> Any:
        *inward, out = self.weights
        parts = [functional.linear(x, weight) for weight in inward]
        query, key, value = (part.unflatten(-1, [self.heads, -1]).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(query, key, value)
        return functional.linear(attended.transpose(1, 2).flatten(-2), out)


ATTENTION = Attention()


def reset() -> None:
    for parameter in ATTENTION.parameters():
        parameter.grad = None


def gradients() -> Any:
    return [parameter.grad for parameter in ATTENTION.parameters()]


@program(lambda: [(ragged(3, 5, 2),), (ragged(3, 5, 2),), (ragged(1, 4, 6),), (ragged(2, 7),)])
def one_after_another(x):
    return (x.sin() * 2 + 1).relu()


@program(lambda: [(ragged(3, 5, 2), numbers(4, 4), numbers(4))] * 2)
def a_linear_layer(x, weight, bias):
    return functional.linear(x, weight, bias).tanh()


@program(lambda: [(leaf(3, 2),)] * 2, backward=True)
def a_leaf(x):
    return (x * 3).values()


@program(lambda: [(numbers(10, 4), offsets(3, 5, 2)), (numbers(10, 4), offsets(1, 7, 2))])
def made_of_values(values, offsets):
    return NT.nested_tensor_from_jagged(values, offsets) * 2


@program(lambda: [(numbers(3, 4), numbers(2, 4))] * 2)
def made_of_tensors(x, y):
    return NT.as_nested_tensor([x, y], layout=torch.jagged) + 1


@program(lambda: [(numbers(3, 4), numbers(2, 4))] * 2)
def made_and_taken_apart(x, y):
    return [part.exp() for part in NT.nested_tensor([x, y], layout=torch.jagged).unbind()]


@program(lambda: [(ragged(3, 5, 2),)] * 2)
def reduced(x):
    return x.sum(dim=1), x.mean(dim=1), x.sum(dim=-1)


@program(lambda: [(ragged(3, 5, 2),)] * 2)
def its_parts(x):
    return x.values() + 1, x.offsets().diff(), x.size(0), x.dim(), x.is_nested, x.layout == torch.jagged


@program(lambda: [(ragged(3, 5, 2),)] * 2)
def padded(x):
    return NT.to_padded_tensor(x * 2, 0.0).softmax(-1)


@program(lambda: [(ragged(3, 5, 2),), (ragged(4, 4),)])
def a_batch_of_two(x):
    return x * 2 if x.shape[0] == 2 else x.cos()


@program(lambda: [(ragged(3, 5, 2),)] * 2)
def of_equal_shape(x):
    y = x.exp()
    return x + y, torch.cat([x, y], dim=-1), x.shape == y.shape


@program(lambda: [(ragged(3, 5), ragged(3, 5))] * 2)
def of_other_shape(x, y):
    try:
        return x + y
    except RuntimeError:
        return x - 1


@program(lambda: [(ragged(3, 5, 2), numbers(4), numbers(4))] * 2)
def normalized(x, weight, bias):
    return functional.layer_norm(x, (4,), weight, bias).softmax(-1)


@program(lambda: [(ragged(3, 5, 2, grad=True),)] * 2, backward=True)
def trained(x):
    y = x.unflatten(-1, [2, 2]).transpose(1, 2)
    return (y * y).transpose(1, 2).flatten(-2).values()


@program(lambda: [(ragged(3, 5, 2, width=16),), (ragged(3, 5, 2, width=16),), (ragged(6, 2, width=16),)])
def attention(x):
    with torch.no_grad():
        return ATTENTION(x)


@program(
    lambda: [(leaf(3, 2, width=16),), (leaf(3, 2, width=16),), (leaf(2, 5, width=16),)],
    state=gradients,
    setup=reset,
    backward=True,
)
def attention_trained(x):
    return ATTENTION(x).values()


BATCHES = ((3, 5, 2), (4, 4, 1), (1, 2), (7, 2, 2, 1), (2, 6, 3))


def batches(**options: Any) -> list[tuple[Any, ...]]:
    return [(ragged(*lengths, **options),) for lengths in BATCHES]


@program(batches)
def of_many_lengths(x):
    return torch.where(x > 0, x, x * 0.1) @ torch.ones(4, 3), x.chunk(2, -1), functional.rms_norm(x, [4])


@program(batches)
def its_sizes(x):
    y = x * x.shape[0]
    return y, len(x.shape), x.shape[2], y.size(-1), y.size(0), y.dim(), y.is_nested, x.shape == (x + 1).shape


@program(batches)
def its_shape(x):
    return x.shape, x + 1


@program(batches)
def two_of_the_same_offsets(x):
    query = NT.nested_tensor_from_jagged(x.values() * 2, x.offsets())
    key = NT.nested_tensor_from_jagged(x.values() * 3, x.offsets())
    return query * key + x


@program(batches)
def two_of_new_offsets(x):
    bounds = x.offsets() * 1
    query = NT.nested_tensor_from_jagged(x.values() * 2, bounds)
    return query * NT.nested_tensor_from_jagged(x.values() * 3, bounds)


@program(batches)
def offsets_of_equal_content(x):
    try:
        return x + NT.nested_tensor_from_jagged(x.values(), x.offsets().clone())
    except RuntimeError:
        return x.values() + 1


@program(lambda: [(*[ragged(3, 5)] * 2,), (ragged(3, 5), ragged(3, 5)), (*[ragged(2, 4)] * 2,)])
def one_tensor_twice_then_two(x, y):
    try:
        return x + y
    except RuntimeError:
        return x.values() + y.values()


@program(lambda: [(ragged(3, 5), ragged(3, 5)), (*[ragged(3, 5)] * 2,)])
def two_tensors_then_one_twice(x, y):
    try:
        return x + y
    except RuntimeError:
        return x.values() + y.values()


@program(batches)
def written_in_place(x):
    y = x * 1
    y.mul_(2)
    x.add_(y)
    x.values().mul_(0.5)
    return y + x


@program(batches)
def made_like_it(x):
    return torch.zeros_like(x), torch.empty_like(x).fill_(2.0), x.clone(), x.detach().to(torch.float64)


@program(lambda: [(numbers(2, 4, 3), torch.tensor([1, 0]), torch.tensor([2, 3]))] * 2)
def narrowed(x, start, length):
    return NT.narrow(x, 1, start, length, layout=torch.jagged) * 2


@program(lambda: [(ragged(3, 5, 2),), (ragged(1, 2),)])
def rows_of_it(x):
    return [row.sum() for row in x.unbind()], x[0] * 2


@program(lambda: [(leaf(3, 2),), (leaf(3, 2),), (leaf(1, 4),)], backward=True)
def checkpointed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda t: (t * 2).sin(), x, use_reentrant=False).values()


@program(lambda: [(leaf(3, 2),), (leaf(3, 2),), (leaf(1, 4),)], backward=True)
def printed_on_the_way(x):
    y = x * 2
    print(y)
    return (y + 1).sin().values()


@program(batches)
def refused_by_the_class(x):
    try:
        return x.view(3, 3)
    except RuntimeError as error:
        return x.sin(), type(error).__name__


@program(lambda: [({"left": ragged(3, 5), "right": [ragged(2, 2)]},)] * 2)
def in_containers(tree):
    return {"sum": tree["left"].sum(-1), "rest": [each * 2 for each in tree["right"]]}
