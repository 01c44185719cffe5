"""Captures for all sizes: when sizes vary, what of them is guarded, and what programs may ask of them."""

from collections import deque
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._compile import entry_of
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError


def captures(compiled: Any) -> int:
    return int(gramme.statistics(compiled).captures)


def conditions(compiled: Any) -> list[str]:
    """Of the newest segment, what is said of sizes."""
    newest = max(_C.segments(entry_of(compiled)), key=lambda row: row["number"])
    return [guard for guard in newest["guards"] if "size()" in guard and "Tensor" not in guard]


def rows(n: int) -> torch.Tensor:
    return torch.arange(3.0 * n).reshape(n, 3)


BACKENDS = ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_that_changed_varies(backend: str) -> None:
    def double(x):
        return x * 2 + x.shape[0], x.shape

    compiled = gramme.compile(double, backend=backend)
    for n in (4, 7, 9, 30, 4):
        got, expected = compiled(rows(n)), double(rows(n))
        assert torch.equal(got[0], expected[0])
        assert got[1] == expected[1]
        assert type(got[1]) is torch.Size
    assert captures(compiled) == 2


def test_all_sizes_vary_from_the_start() -> None:
    compiled = gramme.compile(lambda x: x.t() @ x, backend="eager", dynamic=True)
    for n in (4, 7, 9):
        assert torch.equal(compiled(rows(n)), rows(n).t() @ rows(n))
    assert captures(compiled) == 1


def test_no_size_varies() -> None:
    compiled = gramme.compile(lambda x: x + 1, backend="eager", dynamic=False)
    for n in (4, 7, 9):
        compiled(rows(n))
    assert captures(compiled) == 3


def test_config_is_read_at_each_capture() -> None:
    compiled = gramme.compile(lambda x: x + 1, backend="eager")
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        for n in (4, 7, 9):
            compiled(rows(n))
        assert captures(compiled) == 3
    compiled(rows(11))
    compiled(rows(12))
    assert captures(compiled) == 4
    with torch._dynamo.config.patch(assume_static_by_default=False):
        other = gramme.compile(lambda x: x * 3, backend="eager")
        other(rows(4))
        other(rows(5))
        assert captures(other) == 1


def test_decisions_are_guards_with_their_lines() -> None:
    def limited(x):
        if x.shape[0] > 20:
            return x[:20]
        return x + 1

    compiled = gramme.compile(limited, backend="eager", dynamic=True)
    for n in (4, 20, 21, 50, 7):
        assert torch.equal(compiled(rows(n)), limited(rows(n)))
    assert captures(compiled) == 2
    assert any(
        c.startswith("L['x'].size()[0] >= 21 (") and "test_dynamic_shapes.py:" in c for c in conditions(compiled)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_in_effects(backend: str) -> None:
    log: list[Any] = []

    def noted(x, found):
        found.append(x.shape[0] // 2)
        found.append((x.shape[0] % 3, x.shape[0] > 5, x.shape[0] / 2, x.numel()))
        return x.sum(0)

    compiled, expected = gramme.compile(noted, backend=backend), []
    for n in (4, 7, 9, 30):
        compiled(rows(n), log)
        noted(rows(n), expected)
    assert log == expected
    assert [type(v) for v in log[-1]] == [int, bool, float, int]
    assert captures(compiled) <= 3


def test_ints_and_sizes_are_one_engine() -> None:
    def part(x, i, n):
        return x[i * n : (i + 1) * n].sum(0), torch.zeros(n, i + 1).shape

    compiled = gramme.compile(part, backend="eager")
    for i, n in [(0, 3), (1, 4), (2, 5), (3, 2), (1, 7)]:
        got, expected = compiled(rows(40), i, n), part(rows(40), i, n)
        assert torch.equal(got[0], expected[0])
        assert got[1] == expected[1]
    assert captures(compiled) <= 3


def test_arithmetic_of_sizes() -> None:
    def numbers(x):
        n = x.shape[0]
        return x * 1, [
            *(n + 1, n - 9, 3 * n, n * n, n // 3, n % 4, -n, +n, ~n, n**2, n / 3, 1 / n, n**0.5, abs(n - 10)),
            *(min(n, 8), max(n, 8, 3), int(n * 0.75), float(n), round(n / 3), divmod(n, 5), bool(n), sum([n, n, 1])),
            *(n == 7, n != 7, n < 7, 3 <= n < 9, not n, n and 5, n or 5, (n > 5) + 1, n & 3, n << 2, n ^ 1),
        ]

    compiled = gramme.compile(numbers, backend="eager")
    for n in (4, 6, 13, 8, 7, 25):
        got, expected = compiled(rows(n))[1], numbers(rows(n))[1]
        assert got == expected
        assert [type(v) for v in got] == [type(v) for v in expected]


def test_a_division_by_a_size_that_is_zero_raises() -> None:
    def mean(x, n):
        return x.sum() * (6 // n)

    compiled = gramme.compile(mean, backend="eager")
    for n in (1, 2, 3):
        assert torch.equal(compiled(rows(2), n), mean(rows(2), n))
    with pytest.raises(ZeroDivisionError):
        compiled(rows(2), 0)
    assert torch.equal(compiled(rows(2), 6), mean(rows(2), 6))


def test_a_loop_over_a_size_is_not_unrolled_for_ever() -> None:
    def total(x):
        found = torch.zeros(3)
        for i in range(x.shape[0]):
            found = found + x[i] * i
        return found

    compiled = gramme.compile(total, backend="eager")
    for n in (4, 5, 6, 9, 12, 3, 20):
        assert torch.equal(compiled(rows(n)), total(rows(n)))
    assert captures(compiled) <= 8


def test_other_strides_are_another_capture() -> None:
    compiled = gramme.compile(lambda x: (x * 2).sum(0), backend="eager", dynamic=True)
    for n in (4, 5):
        compiled(rows(n))
    assert captures(compiled) == 1
    for n in (4, 5):
        turned = torch.arange(3.0 * n).reshape(3, n).t()
        assert torch.equal(compiled(turned), (turned * 2).sum(0))
    assert captures(compiled) <= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_inputs_of_any_size(backend: str) -> None:
    def write(x, y):
        x[: x.shape[0] // 2].add_(1)
        y.mul_(x.shape[0])
        return x.sum() + y.sum()

    compiled = gramme.compile(write, backend=backend)
    for n in (4, 7, 9, 12):
        x, y, a, b = rows(n), rows(n + 1), rows(n), rows(n + 1)
        assert torch.equal(compiled(x, y), write(a, b))
        assert torch.equal(x, a)
        assert torch.equal(y, b)
    base, other = rows(10), rows(10)
    assert torch.equal(compiled(base[:6], base[3:]), write(other[:6], other[3:]))
    assert torch.equal(base, other)


# ---- what programs write on tensors


def test_a_marked_dimension_varies_at_once() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    x = rows(4)
    torch._dynamo.mark_dynamic(x, 0)
    compiled(x)
    compiled(rows(9))
    assert captures(compiled) == 1


def test_a_marked_range_is_guarded() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    x = rows(4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    compiled(x)
    compiled(rows(8))
    assert captures(compiled) == 1
    compiled(rows(9))
    assert captures(compiled) == 2


def test_a_marked_dimension_that_the_program_fixes() -> None:
    def fixed(x):
        return x * 2 if x.shape[0] == 4 else x

    x = rows(4)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match=r"L\['x'\]\.size\(\)\[0\] == 4, at .*test_dynamic_shapes\.py:"):
        gramme.compile(fixed, backend="eager")(x)
    weak = rows(4)
    torch._dynamo.maybe_mark_dynamic(weak, 0)
    assert torch.equal(gramme.compile(fixed, backend="eager")(weak), weak * 2)


def test_a_dimension_marked_static() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    for n in (4, 5, 6):
        x = rows(n)
        torch._dynamo.mark_static(x, 0)
        compiled(x)
    assert captures(compiled) == 3


def test_layouts_without_strides_keep_their_sizes() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager", dynamic=True)
    for n in (4, 5):
        sparse = rows(n).to_sparse()
        assert torch.equal(compiled(sparse).to_dense(), rows(n) * 2)


def test_a_mark_does_not_undo_what_was_captured() -> None:
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    compiled(rows(4))
    x = rows(4)
    torch._dynamo.mark_dynamic(x, 0)
    assert torch.equal(compiled(x), x * 2)


def test_a_bounded_deque_is_not_an_unbounded_one() -> None:
    def last(x, kept):
        kept.append(x.shape[0])
        return x * len(kept)

    compiled = gramme.compile(last, backend="eager")
    for limit in (3, 0, None, 1):
        got, expected = deque([7], limit), deque([7], limit)
        assert torch.equal(compiled(rows(2), got), last(rows(2), expected))
        assert got == expected


class Scaled(torch.nn.Module):
    """Ints of its own, of a submodule and of what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.times, self.width = 3, [5]
        self.inner = torch.nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.times + self.width[0]


@pytest.mark.parametrize("asked", [False, True])
def test_ints_of_modules_are_numbers_until_they_change(asked: bool) -> None:
    model = Scaled()
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=asked):
        compiled = gramme.compile(model, backend="eager", dynamic=True)
        for n, times in ((4, 3), (7, 3), (5, 4), (6, 5), (4, 9)):
            model.times = times
            assert torch.equal(compiled(rows(n)), model(rows(n)))
    assert captures(compiled) == 1 + (not asked)


def test_ints_that_no_module_holds_vary_from_the_start() -> None:
    kept = {"times": 3}
    compiled = gramme.compile(lambda x, n: x * kept["times"] + n, backend="eager", dynamic=True)
    for n in (4, 7, 9):
        kept["times"] = n + 1
        assert torch.equal(compiled(rows(n), n + 2), rows(n) * (n + 1) + n + 2)
    assert captures(compiled) == 1


def outcome(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except Exception as error:
        return type(error), str(error)


def test_what_raises_at_many_sizes_is_one_capture() -> None:
    def add(x, y):
        return x + y

    compiled = gramme.compile(add, backend="eager")
    for n, m in ((3, 3), (4, 5), (6, 8), (9, 12), (20, 13), (7, 2)):
        assert str(outcome(compiled, rows(n), rows(m))) == str(outcome(add, rows(n), rows(m)))
    assert captures(compiled) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_text_of_what_is_raised_and_handled(backend: str) -> None:
    def add(x, y):
        try:
            return x + y
        except RuntimeError as error:
            return str(error)

    compiled = gramme.compile(add, backend=backend)
    for n, m in ((3, 3), (4, 5), (6, 8), (9, 12), (4, 5)):
        assert str(compiled(rows(n), rows(m))) == str(add(rows(n), rows(m)))


def test_what_is_raised_ends_an_iteration() -> None:
    class Rows:
        def __init__(self, data):
            self.data = data

        def __getitem__(self, i):
            return self.data[i]

    def each(x):
        return [row.sum() for row in Rows(x)], x.shape[0]

    compiled = gramme.compile(each, backend="eager")
    for n in (3, 4, 5, 3, 2, 6):
        assert str(compiled(rows(n))) == str(each(rows(n)))


def test_what_is_raised_and_passed_over_by_finally() -> None:
    def add(x, y, log):
        try:
            return x + y
        finally:
            log.append(x.shape[0])

    compiled = gramme.compile(add, backend="eager")
    for n, m in ((3, 3), (4, 5), (6, 8), (9, 12)):
        seen: list[int] = []
        expected: list[int] = []
        assert str(outcome(compiled, rows(n), rows(m), seen)) == str(outcome(add, rows(n), rows(m), expected))
        assert seen == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_sorted_by_comparing(backend: str) -> None:
    def order(x):
        pairs = sorted([(x.shape[0], "rows"), (x.shape[1], "columns")], reverse=True)
        sizes = list(x.shape)
        sizes.sort(key=lambda n: -n)
        return sorted(x.shape), pairs, sizes

    compiled = gramme.compile(order, backend=backend)
    for n, m in ((3, 9), (4, 7), (5, 12), (9, 4), (8, 3), (6, 6)):
        assert compiled(torch.ones(n, m)) == order(torch.ones(n, m))
    assert captures(compiled) <= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_a_tensor_begins(backend: str) -> None:
    def begins(x):
        part = x[1:]
        return x.storage_offset(), part.storage_offset(), part[:, 1].storage_offset(), (x + 1)[2:].storage_offset()

    compiled = gramme.compile(begins, backend=backend)
    for k, n in ((0, 5), (2, 5), (1, 7), (0, 9), (4, 8)):
        assert compiled(rows(20)[k : k + n]) == begins(rows(20)[k : k + n]), (k, n)
    assert captures(compiled) <= 4


def test_where_a_tensor_begins_after_set() -> None:
    def begins(x, y):
        x.set_(y)
        return x.storage_offset()

    compiled = gramme.compile(begins, backend="eager")
    for k in (0, 2, 1):
        assert compiled(rows(3), rows(20)[k : k + 3]) == 3 * k


def test_tensors_of_sizes_keep_their_dtype() -> None:
    def of_sizes(x):
        n = x.shape[0]
        return (
            torch.tensor(n),
            torch.tensor([n, n / 2]),
            x.new_tensor(n),
            torch.as_tensor([n, n + 1], dtype=torch.int16),
        )

    compiled = gramme.compile(of_sizes, backend="eager")
    for n in (3, 4, 9, 200):
        for got, expected in zip(compiled(rows(n)), of_sizes(rows(n)), strict=True):
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dynamic", [True, None])
def test_a_view_that_there_is_not_under_varying_strides(dynamic: bool | None) -> None:
    """PyTorch's own question for which strides there is one takes sympy for ever."""

    def program(x: torch.Tensor) -> object:
        try:
            return (x.view(-1) * 2).shape
        except RuntimeError as error:
            return str(error)

    compiled = gramme.compile(program, backend="eager", dynamic=dynamic)
    for shape, last in (((2, 4, 3, 3), True), ((3, 5, 4, 6), True), ((2, 4, 3, 3), False), ((3, 4, 5, 6), True)):
        x = torch.ones(shape)
        if last:
            x = x.to(memory_format=torch.channels_last)
        assert compiled(x) == program(x)


def test_a_view_by_keywords_of_varying_strides() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.unflatten(input=x, dim=0, sizes=(2, -1)) * 2

    compiled = gramme.compile(program, backend="eager", dynamic=True)
    for rows, columns in ((4, 3), (6, 5)):
        x = torch.arange(float(rows * columns)).reshape(columns, rows).t()
        assert torch.equal(compiled(x), program(x))
