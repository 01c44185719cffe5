"""Bodies of operators beside what programs do around them: writes, exceptions, random numbers, modes, gradients.

Each program makes its function and arguments anew; results, arguments afterwards, printed text, exceptions, gradients
and the next random number are eager's, captured and hit, with and without fullgraph.
"""

import contextlib
import gc
import io
import linecache
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.wrap import wrap

from e2e.nested_text import Shown

Made = tuple[Callable[..., Any], tuple[Tensor, ...]]
PROGRAMS: list[Callable[[], Made]] = []


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    PROGRAMS.append(make)
    return make


def three(grad: bool = False) -> Tensor:
    return torch.linspace(-1, 2, 3).requires_grad_(grad)


def write_then_raise(index: int, inside: bool, handled: bool) -> Made:
    def body(a: Tensor, i: Tensor) -> Tensor:
        a.add_(1)
        return a.gather(0, i) if inside else a

    def run(x: Tensor, i: Tensor) -> Tensor:
        result: Tensor = wrap(body, x, i)
        return result if inside else x.gather(0, i)

    def handles(x: Tensor, i: Tensor) -> Any:
        try:
            return run(x, i)
        except (RuntimeError, IndexError):
            return "caught", x * 2

    return handles if handled else run, (three(), torch.tensor([index]))


@program
def raises_inside() -> Made:
    return write_then_raise(7, inside=True, handled=False)


@program
def raises_inside_handled() -> Made:
    return write_then_raise(7, inside=True, handled=True)


@program
def raises_after() -> Made:
    return write_then_raise(7, inside=False, handled=False)


@program
def raises_after_handled() -> Made:
    return write_then_raise(7, inside=False, handled=True)


@program
def does_not_raise() -> Made:
    return write_then_raise(2, inside=True, handled=True)


@program
def random_numbers() -> Made:
    def run(x: Tensor) -> Any:
        return wrap(lambda a: a + torch.rand(3), x), torch.rand(2)

    return run, (three(),)


@program
def grad_mode_left() -> Made:
    def body(a: Tensor) -> Tensor:
        torch._C._set_grad_enabled(False)
        return a * 2

    def run(x: Tensor) -> Any:
        result = wrap(body, x)
        then = x * 3
        torch._C._set_grad_enabled(True)
        return result, then, then.requires_grad

    return run, (three(grad=True),)


@program
def effect_then_exception() -> Made:
    log: list[int] = []

    def body(a: Tensor) -> Tensor:
        log.append(1)
        a.add_(1)
        raise ValueError("body")

    def run(x: Tensor) -> Any:
        log.clear()
        try:
            wrap(body, x)
        except ValueError as error:
            return x * 2, str(error), len(log)

    return run, (three(),)


@program
def second_result_leaks() -> Made:
    box: list[Tensor] = []

    def body(a: Tensor) -> Tensor:
        values, places = a.sort()
        box.append(places)
        return values

    def run(x: Tensor) -> Any:
        box.clear()
        return wrap(body, x), box[0] + 1

    return run, (three(),)


@program
def training() -> Made:
    torch.manual_seed(1)
    linear = nn.Linear(3, 3)

    def run(x: Tensor) -> Any:
        y = wrap(lambda a: torch.relu(linear(a)), x)
        (y * y).sum().backward()
        gradients = x.grad, linear.weight.grad
        linear.zero_grad()
        return gradients

    return run, (torch.ones(2, 3).requires_grad_(),)


@program
def running_statistics() -> Made:
    norm = nn.BatchNorm1d(3)

    def run(x: Tensor) -> Any:
        norm.reset_running_stats()
        return wrap(lambda a: norm(a), x), norm.num_batches_tracked + 0, norm.running_mean * 1

    return run, (torch.arange(6.0).view(2, 3),)


@program
def vmap_inside() -> Made:
    def run(x: Tensor) -> Any:
        return wrap(lambda a: torch.vmap(lambda v: v * a.sum())(a), x)

    return run, (three(),)


@program
def inside_vmap() -> Made:
    def run(x: Tensor, y: Tensor) -> Any:
        return torch.vmap(lambda v: wrap(lambda a: a * y, v))(x)

    return run, (torch.ones(2, 3), three())


@program
def generator_across() -> Made:
    def numbers(x: Tensor) -> Iterator[Tensor]:
        yield x * 1
        yield x * 2
        yield x * 3

    def run(x: Tensor) -> Any:
        g = numbers(x)
        first = next(g)
        second = wrap(lambda v: next(g) + v, x)
        return first, second, next(g)

    return run, (three(),)


@program
def hook_on_result() -> Made:
    def run(x: Tensor) -> Any:
        y = wrap(lambda a: a * 2, x)
        y.register_hook(lambda g: g * 5)
        y.sum().backward()
        return x.grad

    return run, (three(grad=True),)


class Holder:
    number = 0
    tensor: Tensor


@program
def attributes() -> Made:
    holder = Holder()

    def body(a: Tensor) -> Tensor:
        holder.number += 1
        holder.tensor = a * 2
        return a + holder.number

    def run(x: Tensor) -> Any:
        holder.number = 0
        result = wrap(body, x)
        return result, holder.tensor + 1, holder.number

    return run, (three(),)


@program
def resized() -> Made:
    def run(x: Tensor) -> Any:
        wrap(lambda a: a.unsqueeze_(0), x)
        return x * 2

    return run, (three(),)


@program
def one_body_twice() -> Made:
    def body(a: Tensor) -> Tensor:
        return a.sin() + 1

    def run(x: Tensor) -> Any:
        return wrap(body, wrap(body, x))

    return run, (three(),)


@program
def data_as_a_number() -> Made:
    def run(x: Tensor) -> Any:
        return wrap(lambda a: a * a.sum().item(), x)

    return run, (three(),)


@program
def printing() -> Made:
    def body(a: Tensor) -> Tensor:
        print("body", a.shape)
        return a + 1

    def run(x: Tensor) -> Any:
        return wrap(body, x) * 2

    return run, (three(),)


@program
def detached_view() -> Made:
    def run(x: Tensor) -> Any:
        result = wrap(lambda a: a.detach(), x)
        result.add_(1)
        return x, result

    return run, (three(),)


@program
def gradient_gained() -> Made:
    weight = torch.ones(3, requires_grad=True)

    def run(x: Tensor) -> Any:
        y = x * 1
        wrap(lambda a: a.mul_(weight), y)
        return y, y.requires_grad

    return run, (three(),)


def seen(function: Callable[..., Any], arguments: tuple[Tensor, ...]) -> Any:
    torch.manual_seed(0)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*arguments)
        except gramme.CaptureError:
            raise
        except Exception as error:
            result = type(error), str(error)
    return result, [each.detach() for each in arguments], printed.getvalue(), torch.is_grad_enabled(), torch.rand(1)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, Tensor):
        return torch.equal(got, want) and got.requires_grad == want.requires_grad
    if isinstance(want, list | tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return bool(got == want)


ENDS_BEFORE = {"grad_mode_left", "effect_then_exception", "hook_on_result", "data_as_a_number", "printing"}
BACKWARD = {"training", "hook_on_result"}  # calls backward(), which is carried out for real


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_as_eager(make: Callable[[], Made], backend: str) -> None:
    want = seen(*make())
    for whole in (False, True):
        function, arguments = make()
        compiled = gramme.compile(function, backend=backend, fullgraph=whole)
        if whole and make.__name__ in ENDS_BEFORE | BACKWARD:
            with pytest.raises(gramme.CaptureError):
                seen(compiled, arguments)
            continue
        for _ in range(3):
            assert same(seen(compiled, make()[1]), want)


def deep(depth: int, x: Tensor, y: Tensor) -> Any:
    return wrap(lambda a: deep(depth - 1, a, y) + y, x * 2) if depth else x.sin()


def test_lifting_through_depth() -> None:
    x, y = three(), torch.ones(3)
    want = deep(8, x, y)
    counts = []
    for depth in (2, 4, 8):
        shown = Shown()
        got = gramme.compile(deep, backend=shown, fullgraph=True)(depth, x, y)
        counts.append(len(shown.graphs[0]))
    assert torch.equal(got, want)
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_nothing_leaks() -> None:
    function, arguments = second_result_leaks()
    sizes = []
    for _ in range(3):
        for _ in range(150):
            gramme.compile(function, backend="native")(*arguments)
        gramme.reset()
        linecache.clearcache()
        gc.collect()
        sizes.append(len(gc.get_objects()))
    assert sizes[2] - sizes[1] < 150
