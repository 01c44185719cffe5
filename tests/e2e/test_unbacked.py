"""Numbers and sizes that come out of data, in graphs: what is captured, asserted, decided, given out."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import CaptureError

from e2e.data_programs import PROGRAMS, Program

BACKENDS = ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)]
INDUCTOR = ["masks", "padding_by_item"]


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, list | tuple):
        assert type(got) is type(expected)
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            assert_same(a, b)
    else:
        assert type(got) is type(expected)
        assert got == expected


def run(function: Callable[..., Any], *calls: tuple[Any, ...], backend: str = "eager", **options: Any) -> Any:
    """The compiled function after it gave eager's results for all calls in one graph."""
    compiled = gramme.compile(function, backend=backend, fullgraph=True, **options)
    for args in calls:
        assert_same(compiled(*args), function(*args))
    return compiled


def captures(compiled: Any) -> int:
    return int(gramme.statistics(compiled).captures)


t = torch.tensor


@pytest.mark.sampled(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_programs_whole(program: Program, backend: str) -> None:
    if program.whole:
        assert captures(run(program.function, *program.calls(), backend=backend)) == 1
        return
    with pytest.raises(torch._dynamo.exc.UserError, match=r"data_programs\.py"):
        gramme.compile(program.function, backend=backend, fullgraph=True)(*program.calls()[0])


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if repr(p) in INDUCTOR], ids=repr)
def test_programs_whole_by_inductor(program: Program) -> None:
    compiled = gramme.compile(program.function, backend="inductor", fullgraph=True)
    for args in program.calls():
        torch.testing.assert_close(compiled(*args), program.function(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_programs_in_segments(program: Program, backend: str) -> None:
    """Without one graph being asked for nothing fails, and what breaks is carried out alone."""
    compiled = gramme.compile(program.function, backend=backend)
    for _ in range(3):
        for args in program.calls():
            assert_same(compiled(*args), program.function(*args))
    calls = program.calls()
    with gramme.meter() as meter:
        for args in calls:
            compiled(*args)
    assert meter.read().share >= 0.95


# ---- numbers


@pytest.mark.parametrize("backend", BACKENDS)
def test_items_are_results(backend: str) -> None:
    def totals(x):
        n = (x > 0).sum().item()
        return n, n * 2 + 1, [x.sum().item(), x.sum().item() * 2], x + n, n > 2, (x > 0).any().item()

    run(totals, (t([1.0, -1, 2]),), (t([-1.0, -3]),), (t([1.0, 2, 3, 4]),), backend=backend, dynamic=True)


def test_conversions() -> None:
    def converted(x, k):
        return int(x.sum()), float(k.sum()), int(k.sum()) + 1, float(x.mean()), bool((x > 0).all()), k.tolist()

    run(converted, (t([1.5, -1, 2]), t([1, 2])), (t([1.5, 1, 2]), t([4, 2])))


@pytest.mark.parametrize("backend", BACKENDS)
def test_items_of_inputs(backend: str) -> None:
    def largest(x, k, scale):
        n = k.item()
        torch._check(n >= 1)
        torch._check(n <= x.shape[0])
        return x.topk(n), x * scale.item(), scale.item()

    x, scale = torch.arange(5.0), torch.tensor(0.5, dtype=torch.float64)
    compiled = run(largest, (x, t(2), scale), (x, t(5), scale * 3), (x, t(1), scale), backend=backend)
    assert captures(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_effects_hold_items(backend: str) -> None:
    log: list[Any] = []

    def noted(x, found):
        found.append(x.sum().item())
        found.append((x.nonzero().shape[0], x[x > 0].shape))
        return x * 2

    compiled, expected = gramme.compile(noted, backend=backend, fullgraph=True), []
    for x in (t([1, 0, 2]), t([0, 0, 0]), t([-1, 2, 3])):
        assert_same(compiled(x, log), noted(x, expected))
    assert_same(log, expected)


def test_settings_are_read_at_each_capture() -> None:
    def both(x):
        return torch.zeros((x > 0).sum().item()), x.nonzero() * 2

    def captured(**settings: bool) -> int:
        compiled = gramme.compile(both, backend="eager")
        with torch._dynamo.config.patch(**settings):
            for x in (t([1, 0, 2]), t([0, 0, 0])):
                assert_same(compiled(x), both(x))
        return captures(compiled)

    assert captured() > 1
    assert captured(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True) == 1
    assert captured(capture_scalar_outputs=True) > 1


# ---- decisions and assertions


def test_a_decision_ends_the_segment() -> None:
    def limited(x):
        n = (x > 0).sum().item()
        y = x * n
        if n > 2:
            return y + 1
        return y - 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = gramme.compile(limited, backend="eager")
        for x in (t([1, 0, 2]), t([1, 1, 1]), t([0, 0, 0])):
            assert_same(compiled(x), limited(x))
    with pytest.raises(CaptureError, match="torch._check") as caught:
        gramme.compile(limited, backend="eager", fullgraph=True)(t([1, 0, 2]))
    assert isinstance(caught.value, torch._dynamo.exc.UserError)
    assert type(caught.value.__cause__).__name__ == "GuardOnDataDependentSymNode"
    assert caught.value.source_line == "if n > 2:"
    assert "u0 >= 3" in caught.value.reason


@pytest.mark.parametrize("backend", BACKENDS)
def test_checks_are_assertions(backend: str) -> None:
    def checked(x):
        n = (x > 0).sum().item()
        torch._check(n >= 2, lambda: "two at least")
        torch._check_value(n < 5)
        if n == 1 or n >= 5:
            return x
        return torch.zeros(n) + x.sum()

    compiled = gramme.compile(checked, backend=backend, fullgraph=True)
    for count in (2, 3, 4):
        x = torch.ones(count)
        assert_same(compiled(x), checked(x))
    for x in (t([1.0, -1, -1]), torch.ones(5)):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            checked(x)
        with pytest.raises(type(expected.value)) as caught:
            compiled(x)
        assert str(caught.value) == str(expected.value)


def test_a_check_of_a_size_is_a_guard() -> None:
    def checked(x):
        torch._check(x.shape[0] > 2)
        return x + 1

    compiled = gramme.compile(checked, backend="eager", fullgraph=True, dynamic=True)
    assert_same(compiled(torch.ones(3)), checked(torch.ones(3)))
    assert_same(compiled(torch.ones(5)), checked(torch.ones(5)))
    assert captures(compiled) == 1
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        compiled(torch.ones(2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_divisors_and_roots(backend: str) -> None:
    """What would raise, or be a complex number, runs plainly."""

    def divided(x):
        y = x[x > 0]
        n = y.shape[0]
        k = x.sum().item()
        return y.sum() / n, 6 // n, 7 % n, 1.0 / (k + 0.5), n**0.5, int(n**0.5), (k + n) ** 0.5

    compiled = gramme.compile(divided, backend=backend, fullgraph=True)
    for x in (t([1, -1, 2]), t([4, 4, 0]), t([-7, 3, 1]), t([-1, -1, 9])):
        assert_same(compiled(x), divided(x))
    with pytest.raises(ZeroDivisionError):
        compiled(t([-1, -2, -3]))
    assert captures(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_that_is_said_to_be_another(backend: str) -> None:
    def said(x):
        k, n = x.sum().item(), x[x > 0].shape[0]
        torch._check(k == 5)
        torch._check(n >= 1)
        torch._check(n <= 1)
        made = (
            [x + i for i in range(k)],
            {k: n},
            f"{k} {n}",
            x[:k],
            x.repeat(k),
            x * k,
            x.expand(k, 1),
            torch.full((k,), n),
        )
        return (
            made,
            k,
            [n],
            k * n,
            k + n,
            (k + 1) ** 0.5,
            k // 2,
            max(k, 3),
            abs(-k),
            divmod(k, n + 1),
            bool(k),
            k * 1.5,
        )

    compiled = run(said, (t([5]),), backend=backend)
    with pytest.raises(RuntimeError, match="Expected cond"):
        compiled(t([4]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_spread_of_chosen_items(backend: str) -> None:
    def spread(x):
        y = x[x > 0]
        return y.std(), y.var(0), y[:, None].expand(-1, 2).var(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(spread, (t([1.0, -1, 2]),), (t([1.0, 2, 4]),), (t([1.0, -2]),), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_an_operator_takes_for_granted_may_be_otherwise(backend: str) -> None:
    """Broadcasting takes sizes out of data for equal; where one is 1 instead, the program runs plainly."""

    def added(x, y):
        return x[x > 0] + y

    compiled = gramme.compile(added, backend=backend, fullgraph=True)
    for x in (t([1.0, 2, -1]), t([1.0, -2, -1])):
        assert_same(compiled(x, torch.ones(2)), added(x, torch.ones(2)))
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.ones(3), torch.ones(2))


def test_writes_are_not_made_twice() -> None:
    def written(x, y):
        y.add_(1)
        n = (x > 0).sum().item()
        torch._check(n > 1)
        return torch.zeros(n)

    compiled = gramme.compile(written, backend="eager", fullgraph=True)
    for x, raises in ((t([1, 1]), False), (t([1, 0]), True)):
        y, z = torch.zeros(2), torch.zeros(2)
        for function, of in ((compiled, y), (written, z)):
            if raises:
                with pytest.raises(RuntimeError, match="Expected cond"):
                    function(x, of)
            else:
                function(x, of)
        assert torch.equal(y, z)


def test_a_mask_that_was_written_selects_anew() -> None:
    def twice(x, mask):
        a = x[mask]
        mask.logical_not_()
        return a.sum(), x[mask]

    def calls() -> tuple[Any, ...]:
        return torch.arange(4.0), t([True, False, True, True])

    compiled = gramme.compile(twice, backend="eager", fullgraph=True)
    assert_same(compiled(*calls()), twice(*calls()))


def test_equal_masks_give_equal_sizes() -> None:
    def same(x, y):
        mask = x > 0
        return x[mask] * y[mask]

    run(same, (t([1.0, -1, 2]), torch.arange(3.0)), (t([-1.0, -1, -2]), torch.arange(3.0)))


def test_sizes_of_sizes() -> None:
    def shaped(x):
        y = x[x > 0]
        z = torch.cat([y, y + 1])
        return z.view(2, -1) if z.shape[0] != 0 else z, y.shape, z.numel()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = gramme.compile(shaped, backend="eager")
        for x in (t([1.0, -1, 2]), t([-1.0, -1]), torch.ones(5)):
            assert_same(compiled(x), shaped(x))


def test_gradients_of_selected_items() -> None:
    def selected(x):
        return (x[x > 0] * 2).sum()

    for backend in ("eager", "native"):
        compiled = gramme.compile(selected, backend=backend, fullgraph=True)
        for data in ([1.0, -1, 2], [-1.0, -1, -1]):
            x, y = t(data, requires_grad=True), t(data, requires_grad=True)
            compiled(x).backward()
            selected(y).backward()
            assert torch.equal(x.grad, y.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary_beside_sizes_out_of_data(backend: str) -> None:
    def mixed(x):
        y = x[x > 0]
        return y + 1, x * 2, y.shape[0] + x.shape[0], torch.where(x > 1)

    compiled = gramme.compile(mixed, backend=backend, fullgraph=True, dynamic=True)
    for n in (3, 5, 4, 9):
        x = torch.arange(-4.0, 4.0 * n - 4).reshape(n, 4)
        assert_same(compiled(x), mixed(x))
    assert captures(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_item_as_an_index(backend: str) -> None:
    def indexed(x, i):
        n = i.sum().item()
        return x[n], x[n] * n

    x = torch.arange(12.0).reshape(3, 4)
    compiled = run(indexed, (x, t([1, 0])), (x, t([1, 1])), (x, t([-1, 0])), backend=backend)
    assert captures(compiled) == 1
    with pytest.raises(IndexError):
        compiled(x, t([3, 0]))


def test_layouts_of_sizes_out_of_data() -> None:
    def layouts(x):
        y = x[x > 0]
        return y.is_contiguous(), torch.stack([y, y]).is_contiguous(), y.view(-1, 1)

    run(layouts, (t([1.0, 0, 2]),), (t([0.0, 0]),), (t([0.0, 3]),))


# ---- sizes of inputs of which nothing may be known


def marked(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.decorators.mark_unbacked(x, 0)
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph_for_marked_sizes(backend: str) -> None:
    def doubled(x):
        return (x * 2).sum(1), x.shape[0] + 1, torch.zeros(x.shape[0], 2)

    compiled = gramme.compile(doubled, backend=backend, fullgraph=True)
    for n in (5, 1, 0, 7):
        x = torch.arange(3.0 * n).reshape(n, 3)
        assert_same(compiled(marked(x)), doubled(x))
    assert captures(compiled) == 1


def test_a_decision_by_a_marked_size() -> None:
    def branching(x):
        if x.size(0) == 5:
            return x * 2
        return x + 1

    for n in (5, 4):
        x = marked(torch.ones(n, 3))
        assert_same(gramme.compile(branching, backend="eager")(x), branching(x))
        with pytest.raises(torch._dynamo.exc.UserError, match="size"):
            gramme.compile(branching, backend="eager", fullgraph=True)(x)


def test_a_check_of_a_marked_size() -> None:
    def checked(x):
        torch._check(x.shape[0] >= 3)
        if x.shape[0] < 2:
            return x
        return x.sum(0)

    compiled = gramme.compile(checked, backend="eager", fullgraph=True)
    for n in (5, 3):
        assert_same(compiled(marked(torch.ones(n, 3))), checked(torch.ones(n, 3)))
    assert captures(compiled) == 1
    with pytest.raises(RuntimeError, match="Expected cond"):
        compiled(marked(torch.ones(2, 3)))
