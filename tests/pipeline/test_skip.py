"""@skippable, stash, pop, namespaces, layouts and the tracker of a thread (facts of modules alone, no pipeline)."""

import copy
import threading

import pytest
import torch
from gramme.torchgpipe import GPipe
from gramme.torchgpipe.microbatch import Batch
from gramme.torchgpipe.skip import Namespace, pop, skippable, stash, verify_skippables
from gramme.torchgpipe.skip.layout import SkipLayout, inspect_skip_layout
from gramme.torchgpipe.skip.portal import Portal
from gramme.torchgpipe.skip.skippable import Skippable
from gramme.torchgpipe.skip.tracker import SkipTracker, current_skip_tracker, use_skip_tracker
from gramme.torchgpipe.stream import CPUStream
from torch import nn

from pipeline.models import cpus, popper, stasher


@pytest.fixture(autouse=True)
def _tracker():
    with use_skip_tracker(SkipTracker()):
        yield


def layer(body, **names):
    """A skippable module whose forward is `body`."""

    @skippable(**names)
    class Layer(nn.Module):
        def forward(self, input):
            return (yield from body(input))

    return Layer()


# ---- what the decorator makes


def test_class_keeps_its_name_and_wraps_the_module():
    @skippable(stash=["a"], pop=["b"])
    class Named(nn.Module):
        """Text."""

    made = Named()
    assert (Named.__name__, Named.__doc__, Named.__module__) == ("Named", "Text.", __name__)
    assert isinstance(made, Skippable)
    assert type(made.module).__name__ == "Named"
    assert made.stashable_names == frozenset({"a"})
    assert made.poppable_names == frozenset({"b"})
    assert type(made.stashable_names) is frozenset
    assert repr(made) == "@skippable(Named())"
    assert Named.module_cls is type(made.module)


def test_arguments_reach_the_module():
    @skippable(stash=["a"])
    class Sized(nn.Module):
        def __init__(self, size, *, bias):
            super().__init__()
            self.size, self.bias = size, bias

    made = Sized(3, bias=False)
    assert (made.module.size, made.module.bias) == (3, False)


@pytest.mark.parametrize("names", [{"stash": "skip"}, {"pop": "skip"}])
def test_a_string_is_no_list_of_names(names):
    with pytest.raises(TypeError, match="got the string 'skip'"):
        skippable(**names)
    with pytest.raises(TypeError, match="got the string"):
        stasher("a").isolate(Namespace(), only="a")


def test_forward_may_be_no_generator():
    @skippable()
    class Plain(nn.Module):
        def forward(self, input):
            return input + 1

    assert Plain()(torch.zeros(1)).item() == 1

    @skippable(stash=["a"])
    class Silent(nn.Module):
        def forward(self, input):
            return input

    with pytest.raises(RuntimeError, match="'a' must be stashed but have not"):
        Silent()(torch.zeros(1))


def test_stash_and_pop_without_a_pipeline():
    model = nn.Sequential(stasher("a", "b"), nn.Tanh(), popper("b", "a"))
    x = torch.ones(2, requires_grad=True)
    expected = torch.tanh(x * 2) + torch.tanh(x) + torch.tanh(x)
    result = model(x)
    assert torch.equal(result, expected)
    result.sum().backward()
    found, x.grad = x.grad, None
    expected.sum().backward()
    assert torch.allclose(found, x.grad)


def test_none_can_be_stashed():
    def put(x):
        yield stash("a", None)
        return x

    seen = []

    def get(x):
        seen.append((yield pop("a")))
        return x

    nn.Sequential(layer(put, stash=["a"]), layer(get, pop=["a"]))(torch.ones(1))
    assert seen == [None]


# ---- order in one call


def test_loads_before_and_saves_after_the_module():
    events = []

    class Noting(SkipTracker):
        def save(self, batch, ns, name, tensor):
            events.append(("save", name))
            super().save(batch, ns, name, tensor)

        def load(self, batch, ns, name):
            events.append(("load", name))
            return super().load(batch, ns, name)

    def body(x):
        events.append("begin")
        yield stash("b", x)
        skip = yield pop("a")
        events.append("end")
        return x + skip

    with use_skip_tracker(Noting()):
        current_skip_tracker().tensors[None, "a"] = torch.ones(1)
        layer(body, stash=["b"], pop=["a"])(torch.ones(1))
    assert events == [("load", "a"), "begin", "end", ("save", "b")]


def test_a_layer_cannot_pop_what_it_stashes():
    def body(x):
        yield stash("a", x)
        yield pop("a")
        return x

    with pytest.raises(RuntimeError, match="'a' has not been stashed"):
        layer(body, stash=["a"], pop=["a"])(torch.ones(1))


def test_load_edits_the_input_and_save_edits_the_output():
    class Marking(SkipTracker):
        def save(self, batch, ns, name, tensor):
            batch[0] = batch[0] + 100

        def load(self, batch, ns, name):
            batch[0] = batch[0] + 10
            return None

    def body(x):
        yield pop("a")
        yield stash("b", x)
        return x + 1

    with use_skip_tracker(Marking()):
        assert layer(body, stash=["b"], pop=["a"])(torch.zeros(1)).item() == 111


def test_names_go_in_the_order_of_declaration():
    order = []

    class Noting(SkipTracker):
        def save(self, batch, ns, name, tensor):
            order.append(name)

    with use_skip_tracker(Noting()):
        stasher("z", "b", "q", "a")(torch.ones(1))
    assert order == ["z", "b", "q", "a"]


# ---- errors while it runs


def test_pop_of_what_was_not_stashed():
    with pytest.raises(RuntimeError, match="'a' has not been stashed"):
        popper("a")(torch.ones(1))


def test_commands_for_names_not_declared():
    def put(x):
        yield stash("b", x)
        return x

    def get(x):
        yield pop("b")
        return x

    with pytest.raises(RuntimeError, match="'b' has not been declared as stashable"):
        layer(put, stash=["a"])(torch.ones(1))
    with pytest.raises(RuntimeError, match="'b' has not been declared as poppable"):
        layer(get)(torch.ones(1))


def test_declared_names_must_be_used_and_all_are_listed():
    def nothing(x):
        return x
        yield

    with pytest.raises(RuntimeError, match="'a', 'b' must be stashed but have not"):
        layer(nothing, stash=["a", "b"])(torch.ones(1))
    current_skip_tracker().tensors.update({(None, "a"): None, (None, "b"): None})
    with pytest.raises(RuntimeError, match="'a', 'b' must be popped but have not"):
        layer(nothing, pop=["a", "b"])(torch.ones(1))


def test_one_name_is_popped_once():
    def twice(x):
        yield pop("a")
        yield pop("a")
        return x

    current_skip_tracker().tensors[None, "a"] = None
    with pytest.raises(RuntimeError, match="'a' has been popped already"):
        layer(twice, pop=["a"])(torch.ones(1))


def test_what_is_no_command_and_what_is_no_tensor():
    def wrong(x):
        yield "stash"
        return x

    def number(x):
        yield stash("a", 1)
        return x

    with pytest.raises(TypeError, match="'stash' is not a command from @skippable"):
        layer(wrong)(torch.ones(1))
    with pytest.raises(TypeError, match="expected a tensor or None"):
        layer(number, stash=["a"])(torch.ones(1))


def test_the_modules_own_exception_passes():
    def broken(x):
        yield stash("a", x)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        layer(broken, stash=["a"])(torch.ones(1))


# ---- isolate and namespaces


def test_isolate_returns_itself_and_later_calls_override():
    a, b = Namespace(), Namespace()
    module = stasher("x", "y")
    assert module.isolate(a) is module
    assert list(module.stashable()) == [(a, "x"), (a, "y")]
    module.isolate(b, only=["y"])
    assert list(module.stashable()) == [(a, "x"), (b, "y")]
    module.isolate(None, only=["x"])
    assert list(module.stashable()) == [(None, "x"), (b, "y")]


def test_isolated_names_do_not_meet():
    a, b = Namespace(), Namespace()
    one, two = stasher("x", of=lambda x: x + 1).isolate(a), stasher("x", of=lambda x: x + 10).isolate(b)
    model = nn.Sequential(one, two, popper("x").isolate(a), popper("x").isolate(b))
    verify_skippables(model)
    assert model(torch.zeros(1)).item() == 11


def test_identity_of_namespaces():
    a, b = Namespace(), Namespace()
    assert a != b
    assert a == a
    assert len({a, b, copy.copy(a)}) == 2
    assert copy.copy(a) == a
    assert copy.deepcopy(a) == a
    assert hash(copy.deepcopy(a)) == hash(a)
    assert (a < b) != (b < a)
    assert (a <= b) != (b <= a)
    assert sorted([a, b]) in ([a, b], [b, a])
    with pytest.raises(AttributeError):
        a.other = 1


def test_none_is_a_namespace_and_comes_first():
    a = Namespace()
    assert isinstance(None, Namespace)
    assert isinstance(a, Namespace)
    assert not isinstance(1, Namespace)
    assert a != None  # noqa: E711
    assert a > None
    assert a >= None
    assert not a < None
    assert not a <= None
    assert None < a
    assert sorted([(0, a, "x"), (0, None, "x")]) == [(0, None, "x"), (0, a, "x")]


def test_isolated_and_not_isolated_skips_between_the_same_partitions():
    ns = Namespace()
    layers = [stasher("x"), stasher("x").isolate(ns), popper("x"), popper("x").isolate(ns)]
    layout = inspect_skip_layout([nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:])])
    assert sorted(layout.copy_policy(1)) == [(0, None, "x"), (0, ns, "x")]
    model = GPipe(nn.Sequential(*layers), [2, 2], devices=cpus(2))
    assert model(torch.ones(1, 1)).shape == (1, 1)


# ---- verify_skippables


def complaints(*layers):
    with pytest.raises(TypeError) as caught:
        verify_skippables(nn.Sequential(*layers))
    return str(caught.value)


def test_verify_accepts_pairs():
    verify_skippables(nn.Sequential(stasher("a", "b"), popper("b"), popper("a")))


def test_verify_lists_all_problems():
    text = complaints(popper("early"), stasher("never"), stasher("never"))
    assert text.count("* ") == 3
    assert "'0' declared 'early' as poppable but it was not stashed" in text
    assert "'2' redeclared 'never' as stashable" in text
    assert "not isolated by namespace" in text
    assert "no module declared 'never' as poppable but stashed" in text


def test_verify_both_in_one_layer_is_said_once():
    @skippable(stash=["foo"], pop=["foo"])
    class Both(nn.Module):
        pass

    text = complaints(Both())
    assert "'0' declared 'foo' both as stashable and as poppable" in text
    assert text.count("* ") == 1


def test_verify_second_use_after_a_pair_is_a_redeclaration():
    text = complaints(stasher("foo"), popper("foo"), stasher("foo"), popper("foo"))
    assert "'2' redeclared 'foo' as stashable" in text
    assert "'3' redeclared 'foo' as poppable" in text
    assert text.count("* ") == 2


def test_verify_and_layout_look_at_direct_children_only():
    nested = nn.Sequential(nn.Sequential(popper("foo")), nn.Sequential(stasher("foo")))
    verify_skippables(nested)
    assert not inspect_skip_layout([nested]).by_ns_name


# ---- layouts


def test_layout_of_partitions():
    a = Namespace()
    layout = inspect_skip_layout(
        [
            nn.Sequential(stasher("x"), stasher("x").isolate(a)),
            nn.Sequential(stasher("local"), popper("local"), stasher("y")),
            nn.Sequential(popper("y"), popper("x").isolate(a), popper("x")),
        ]
    )
    assert layout.by_ns_name == {(None, "x"): (0, 2), (a, "x"): (0, 2), (None, "local"): (1, 1), (None, "y"): (1, 2)}
    assert layout.requires_copy(None, "x")
    assert layout.requires_copy(a, "x")
    assert not layout.requires_copy(None, "local")
    assert not layout.requires_copy(None, "unknown")
    assert [source for source, _, _ in layout.copy_policy(2)] == [0, 0, 1]  # by source, not as popped
    assert not list(layout.copy_policy(0))
    assert not list(layout.copy_policy(1))


def test_layout_by_hand():
    layout = SkipLayout(3, {(None, "a"): (1, 2), (None, "b"): (0, 2), (None, "c"): (2, 2)})
    assert list(layout.copy_policy(2)) == [(0, None, "b"), (1, None, "a")]


# ---- the tracker of a thread


def test_default_tracker_is_a_dict():
    tracker = SkipTracker()
    batch = Batch(torch.ones(1))
    value = torch.ones(3)
    tracker.save(batch, None, "a", value)
    assert tracker.tensors == {(None, "a"): value}
    assert tracker.load(batch, None, "a") is value
    assert not tracker.tensors
    with pytest.raises(TypeError, match="copy is not supported"):
        tracker.copy(batch, CPUStream, CPUStream, None, "a")


def test_one_tracker_a_thread_and_made_late():
    found = []
    threads = [threading.Thread(target=lambda: found.append((current_skip_tracker(),) * 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    trackers = [first for first, _ in found] + [current_skip_tracker()]
    assert len(set(map(id, trackers))) == 3


def test_use_skip_tracker_restores_also_after_an_exception():
    before, inner = current_skip_tracker(), SkipTracker()
    with pytest.raises(ZeroDivisionError), use_skip_tracker(inner):
        1 / (current_skip_tracker() is not inner)
    assert current_skip_tracker() is before


def test_no_portal_without_a_pipeline(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a portal was made")

    monkeypatch.setattr(Portal, "__init__", refuse)
    model = nn.Sequential(stasher("a"), popper("a"))
    model(torch.ones(1, requires_grad=True)).backward()
    with pytest.raises(AssertionError, match="a portal was made"):
        GPipe(model, [1, 1], devices=cpus(2))(torch.ones(1, 1))
