"""What must be noticed between two calls, in objects, classes and tensors: a change that is harmless is a hit, one that
is not captures anew."""

import copy
import copyreg
import random
import types
from collections import OrderedDict
from typing import Any

import pytest
import torch

from e2e.front import GRAMME, compile
from e2e.watch import Watch, x


class Module:
    scale = 2
    names = ("a", "b")

    def __init__(self) -> None:
        self.shift = 1
        self.weight = x()

    def run(self, value: Any) -> Any:
        return value * self.scale + self.shift

    @property
    def double(self) -> int:
        return self.shift * 2


class Plain:
    items: Any
    n: int


class Other(Module):
    def run(self, value: Any) -> Any:
        return value - self.shift


def run(m: Any, value: torch.Tensor) -> torch.Tensor:
    return m.run(value)


@pytest.fixture
def class_restored() -> Any:
    saved = dict(vars(Module))
    yield
    for name in set(vars(Module)) - set(saved):
        delattr(Module, name)
    for name in ("scale", "names", "run", "double"):
        setattr(Module, name, saved[name])


pytestmark = pytest.mark.usefixtures("class_restored")


# Attributes and classes.


def test_attribute_set() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    m.shift = 1
    w.hit(m, x())
    m.unread = 5  # type: ignore[attr-defined]
    w.hit(m, x())
    m.shift = 2
    w.miss(m, x())


def test_equal_object_of_the_same_class() -> None:
    w = Watch(run)
    w.miss(Module(), x())
    w.hit(Module(), x())
    w.miss(Other(), x())


def test_attribute_deleted() -> None:
    m, w = Module(), Watch(run)
    m.scale = 3
    w.miss(m, x())
    del m.scale
    w.miss(m, x())
    m.scale = 3
    w.hit(m, x())


def test_attribute_added_where_the_class_gave_it() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    m.other = 3  # type: ignore[attr-defined]
    w.hit(m, x())
    m.scale = 3
    w.miss(m, x())


def test_attribute_that_was_missing() -> None:
    w = Watch(lambda m, v: v + (m.extra if hasattr(m, "extra") else getattr(m, "more", 7)))
    m = Module()
    w.miss(m, x())
    m.unrelated = 1  # type: ignore[attr-defined]
    w.hit(m, x())
    m.more = 3  # type: ignore[attr-defined]
    w.miss(m, x())
    m.extra = 9  # type: ignore[attr-defined]
    w.miss(m, x())


def test_tensor_attribute() -> None:
    m, w = Module(), Watch(lambda m, v: v + m.weight)
    w.miss(m, x())
    m.weight = x() * 2
    w.hit(m, x())
    m.weight = x(1)
    w.miss(m, x())
    m.weight = 3  # type: ignore[assignment]
    w.miss(m, x())


def test_nested_attribute() -> None:
    m, w = Module(), Watch(lambda m, v: v + m.inner.deep.k)
    m.inner = types.SimpleNamespace(deep=types.SimpleNamespace(k=1))  # type: ignore[attr-defined]
    w.miss(m, x())
    m.inner.deep = types.SimpleNamespace(k=1)  # type: ignore[attr-defined]
    w.hit(m, x())
    m.inner.deep.k = 2  # type: ignore[attr-defined]
    w.miss(m, x())


def test_class_attribute_changed() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    Module.names = ("c",)  # type: ignore[assignment]
    w.hit(m, x())
    Module.scale = 5
    w.miss(m, x())


def test_class_attribute_of_a_base_shadowed() -> None:
    class Child(Module):
        pass

    m, w = Child(), Watch(run)
    w.miss(m, x())
    Child.unread = 1  # type: ignore[attr-defined]
    w.hit(m, x())
    Child.scale = 9
    w.miss(m, x())


def test_method_patched_on_the_class() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    w.hit(m, x())
    Module.run = lambda self, value: value - 1  # type: ignore[method-assign]
    w.miss(m, x())


def test_method_patched_on_the_instance() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    m.run = lambda value: value * 7  # type: ignore[method-assign]
    w.miss(m, x())
    del m.run
    w.hit(m, x())


def test_property_replaced() -> None:
    m, w = Module(), Watch(lambda m, v: v + m.double)
    w.miss(m, x())
    w.hit(m, x())
    Module.double = property(lambda self: 100)  # type: ignore[method-assign, assignment]
    w.miss(m, x())


def test_data_descriptor_added_over_an_instance_attribute() -> None:
    m, w = Module(), Watch(lambda m, v: v + m.shift)
    w.miss(m, x())
    Module.shift = property(lambda self: 50, lambda self, value: None)  # type: ignore[assignment, method-assign]
    w.miss(m, x())


def test_getattr_added_to_the_class() -> None:
    w = Watch(lambda m, v: v + getattr(m, "absent", 1))
    m = Module()
    w.miss(m, x())
    Module.__getattr__ = lambda self, name: 30  # type: ignore[attr-defined]
    w.miss(m, x())


def test_class_assigned() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    m.__class__ = Module
    w.hit(m, x())
    m.__class__ = Other
    w.miss(m, x())


def test_instance_dict_replaced() -> None:
    m, w = Module(), Watch(run)
    w.miss(m, x())
    m.__dict__ = dict(m.__dict__)
    w.hit(m, x())
    m.__dict__ = {"shift": 4}
    w.miss(m, x())


def test_new_objects_where_old_ones_were() -> None:
    """Attributes move into the dict of an instance when a guard asks for it; a later object may have its addresses."""

    def keep_copy(of: Any, kept: list[Any], value: torch.Tensor) -> torch.Tensor:
        kept.append(copy.copy(of))
        return value + 1

    def new() -> Any:
        made = Plain()
        made.items, made.n = [], 1
        made.items.append(made.items)  # memory comes back when the collector runs, out of order
        return made

    value = x()
    for seed in range(60):
        chance = random.Random(seed)
        compiled = compile(keep_copy, backend="eager")
        alive: list[Any] = []
        for _ in range(200):
            if chance.random() < 0.3:
                keep_copy(new(), [], value)
            given, kept = new(), []
            compiled(given, kept, value)
            if chance.random() < 0.3:
                alive.append(given)
            assert kept[0].items is given.items
            del given
            if chance.random() < 0.2:
                alive.clear()


@pytest.mark.parametrize("own", [True, False])
def test_dict_of_the_tensor_itself(own: bool) -> None:
    def write_both(names: dict[str, Any], tensor: Any) -> tuple[Any, ...]:
        tensor.q = 5
        names["p"] = 1
        read = getattr(tensor, "p", None)
        names["q"] = 7
        return read, tensor.q, tensor + 1

    compiled = compile(write_both, backend="eager")
    for now in (own, not own, own, not own):
        seen = []
        for call in (write_both, compiled):
            tensor = torch.ones(2)
            names = vars(tensor) if now else {}
            seen.append((*call(names, tensor)[:2], names, vars(tensor)))
        assert seen[0] == seen[1]


def test_slots() -> None:
    class Slotted:
        __slots__ = ("k",)

    s, w = Slotted(), Watch(lambda s, v: v + (s.k if hasattr(s, "k") else 0))
    s.k = 1
    w.miss(s, x())
    s.k = 1
    w.hit(s, x())
    s.k = 3
    w.miss(s, x())
    del s.k
    w.miss(s, x())


# Tensors.


def test_shape() -> None:
    w = Watch(lambda v: v + 1)
    w.miss(x(3))
    w.hit(x(3) * 2)
    w.miss(x(4))
    w.miss(x(2, 2))


def test_dtype() -> None:
    w = Watch(lambda v: v * 2)
    w.miss(x())
    w.hit(-x())
    w.miss(x().double())
    w.miss(x().int())


def test_device() -> None:
    w = Watch(lambda v: v * 2 if v.device.type == "cpu" else v + 1)
    w.miss(x())
    w.hit(x())
    w.miss(x().to("meta"))


def test_stride() -> None:
    w = Watch(lambda v: (v.stride(), v + 1))
    w.miss(x(3, 3))
    w.hit(x(3, 3).clone())
    w.miss(x(3, 3).t())
    w.miss(x(3, 6)[:, ::2])


def test_requires_grad() -> None:
    w = Watch(lambda v: (v * 2, v.requires_grad))
    w.miss(x())
    w.hit(x().requires_grad_(False))
    w.miss(x().requires_grad_())


def test_leaf_and_view_of_a_graph() -> None:
    w = Watch(lambda v: v * 2)
    v = x().requires_grad_()
    w.miss(v)
    w.hit(v.detach().requires_grad_())


def test_metadata_changed_by_data_assignment() -> None:
    v, w = x(), Watch(lambda v: v + v.shape[0])
    w.miss(v)
    v.data = x() * 3
    w.hit(v)
    v.data = x(5)
    w.miss(v)


def test_metadata_changed_by_resize() -> None:
    v, w = x(), Watch(lambda v: v * v.numel())
    w.miss(v)
    v.resize_(4)
    w.hit(v)
    v.resize_(2)
    w.miss(v)


def test_metadata_changed_by_swap() -> None:
    v, w = x(), Watch(lambda v: v + 1)
    w.miss(v)
    torch.utils.swap_tensors(v, x() + 5)
    w.hit(v)
    torch.utils.swap_tensors(v, x(2, 3))
    w.miss(v)


def test_metadata_changed_by_in_place_transposition() -> None:
    v, w = x(2, 3), Watch(lambda v: (v + 1, v.stride()))
    w.miss(v)
    v.t_()
    w.miss(v)
    v.t_()
    w.hit(v)


def test_metadata_changed_by_requires_grad() -> None:
    v, w = x(), Watch(lambda v: v * 2)
    w.miss(v)
    v.requires_grad_(False)
    w.hit(v)
    v.requires_grad_()
    w.miss(v)


def test_tensor_held_by_an_object_changes() -> None:
    m, w = Module(), Watch(lambda m, v: v.sum() + m.weight.sum() * m.weight.dim())
    w.miss(m, x())
    m.weight.data = x() * 2
    w.hit(m, x())
    m.weight.data = x(2, 2)
    w.miss(m, x())


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclass_instead_of_tensor() -> None:
    w = Watch(lambda v: v * 2 + 1)
    w.miss(x())
    w.hit(x())
    tagged = x().as_subclass(Tagged)
    assert type(w.compiled(tagged)) is Tagged
    w.hit(x())


def test_parameter_instead_of_tensor() -> None:
    w = Watch(lambda v: (v * 2, isinstance(v, torch.nn.Parameter)))
    w.miss(x())
    w.miss(torch.nn.Parameter(x()))
    w.hit(torch.nn.Parameter(x()))
    w.hit(x())


def test_another_kind_of_argument() -> None:
    w = Watch(lambda v, k: v * 2 if k is None else v + 1)
    w.miss(x(), None)
    w.hit(x(), None)
    w.miss(x(), 3)
    w.miss(x(), "a")
    w.miss(x(), x())
    w.miss(3, None)


def test_attribute_of_a_tensor() -> None:
    w = Watch(lambda v: v * getattr(v, "factor", 2))
    v = x()
    w.miss(v)
    v.factor = 3  # type: ignore[attr-defined]
    w.miss(v)


# Aliasing.


def both(a: torch.Tensor, b: torch.Tensor) -> Any:
    return a + b, a is b


def test_aliased_arguments_no_longer_aliased() -> None:
    w, v = Watch(both), x()
    w.miss(v, v)
    v = x() * 2
    w.hit(v, v)
    w.miss(x(), x())


def test_distinct_arguments_become_one() -> None:
    w, v = Watch(both), x()
    w.miss(x(), x())
    w.hit(x(), x())
    w.miss(v, v)


def test_aliased_objects() -> None:
    def f(a: list[Any], b: list[Any], v: torch.Tensor) -> Any:
        a.append(1)
        return v * len(b)

    f.writes = True  # type: ignore[attr-defined]
    w: Watch = Watch(f)
    one: list[Any] = []
    w.miss([], [], x())
    w.hit([], [], x())
    w.miss(one, one, x())


def test_overlap_of_a_written_input() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    f.writes = True  # type: ignore[attr-defined]
    w = Watch(f)
    w.miss(x(4), x(4))
    w.hit(x(4), x(4))
    base = x(8)
    w._call(True, (base[:4], base[2:6]), {}) if GRAMME else w.compiled(base[:4], base[2:6])
    base = x(8)
    expected = x(8)
    eager = f(expected[:4], expected[2:6])
    assert torch.equal(w.compiled(base[:4], base[2:6]), eager)
    assert torch.equal(base, expected)


def test_overlap_of_inputs_only_read() -> None:
    w = Watch(lambda a, b: a + b)
    base = x(8)
    w.miss(x(4), x(4))
    w.hit(x(4), x(4))
    w.hit(base[:4].clone(), base[4:].clone())


def test_presence_counts_where_the_value_does_not() -> None:
    """A key, attribute, global or cell that was only found, not looked into."""

    def f(v: torch.Tensor, table: dict[str, object], m: types.SimpleNamespace) -> torch.Tensor:
        table.setdefault("z", v)
        return v + (1 if hasattr(m, "flag") else 2)

    f.writes = True  # type: ignore[attr-defined]
    w = Watch(f)
    w.miss(x(), {"z": object()}, types.SimpleNamespace(flag=object()))
    w.hit(x(), {"z": object()}, types.SimpleNamespace(flag=object()))
    w.miss(x(), {}, types.SimpleNamespace(flag=object()))
    w.miss(x(), {"z": object()}, types.SimpleNamespace())


# What a class inherits, and what autograd knows of a tensor.


def test_bases_assigned() -> None:
    class Marked:
        pass

    class Unmarked:
        pass

    class Thing(Marked):
        pass

    def choose(thing: Any, v: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError if isinstance(thing, Marked) else ValueError
        except LookupError:
            return v + 1 + issubclass(type(thing), Marked)
        except ValueError:
            return v - len(Thing.__mro__)

    w = Watch(choose)
    w.miss(Thing(), x())
    w.hit(Thing(), x())
    Thing.__bases__ = (Unmarked,)
    w.miss(Thing(), x())
    Thing.__bases__ = (Unmarked, Marked)
    w.miss(Thing(), x())


def test_requires_grad_counts_only_with_grad_mode_on_or_if_asked() -> None:
    w, asks = Watch(lambda v: v * 2), Watch(lambda v: v * 2 if v.requires_grad else v * 3)
    enters = Watch(torch.enable_grad()(lambda v: v * 2))
    writes = Watch(lambda v: v.add_(1))
    leaf = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        for watch in (w, asks, enters, writes):
            watch.miss(leaf)
        leaf.requires_grad_(False)
        w.hit(leaf)
        for watch in (asks, enters, writes):
            watch.miss(leaf)
    leaf.requires_grad_(True)
    w.miss(leaf)
    assert w.compiled(leaf).requires_grad


def test_a_tangent_is_noticed_among_many_tensors() -> None:
    def total(vs: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(vs).sum()

    compiled = Watch(total).compiled
    values = [torch.ones(2) for _ in range(40)]
    forward = torch.autograd.forward_ad
    with torch.no_grad(), forward.dual_level():
        assert forward.unpack_dual(compiled(values)).tangent is None
        assert forward.unpack_dual(compiled(values)).tangent is None
        values[17] = forward.make_dual(values[17], torch.full((2,), 3.0))
        assert forward.unpack_dual(compiled(values)).tangent.item() == 6.0


def test_attribute_before_a_method_of_an_ordered_dict() -> None:
    od, w = OrderedDict(a=2), Watch(lambda od, value: sum(v for _, v in od.items()) * value)
    w.miss(od, x())
    w.hit(od, x())
    od.unread = 1  # type: ignore[attr-defined]
    w.hit(od, x())
    od.items = lambda: [("own", 7)]  # type: ignore[assignment, method-assign, return-value]
    w.miss(od, x())
    del od.items
    w.hit(od, x())


def test_class_attributes_that_keep_changing() -> None:
    """What is read of classes is guarded however often it changed lately."""

    class Config:
        scale: Any = 2.0

    class Child(Config):
        pass

    def f(x: torch.Tensor) -> Any:
        return x * Child.scale, Child().scale, isinstance(Child.scale, float)

    compiled = compile(f, backend="eager")
    for dense in (True, False):
        x = torch.ones(2) if dense else torch.ones(2).to_sparse()
        for i in range(40):
            change = i % 4
            if change == 0:
                Config.scale = float(i)
            elif change == 1:
                Child.scale = torch.tensor(float(i))
            elif change == 2:
                del Child.scale
            for _ in range(2):
                (y, scale, number), expected = compiled(x), f(x)
                assert torch.equal(y.to_dense(), expected[0].to_dense())
                assert (scale, number) == expected[1:]


# ---- bases that change


def test_bases_that_change() -> None:
    """What super() finds, and which operand is asked first."""

    class First:
        def go(self) -> int:
            return 1

    class Second:
        def go(self) -> int:
            return 10

    class Own(First):
        def go(self) -> int:
            return super().go() + 100

    def by_super(x: torch.Tensor, made: Own) -> torch.Tensor:
        return x + made.go()

    class Left:
        def __add__(self, other: Any) -> str:
            return "left"

        def __eq__(self, other: object) -> Any:
            return "left"

        def __lt__(self, other: object) -> Any:
            return "left"

        def __divmod__(self, other: object) -> Any:
            return "left"

    class Apart:
        pass

    class Right(Left):
        def __radd__(self, other: Any) -> str:
            return "right"

        def __eq__(self, other: object) -> Any:
            return "right"

        def __gt__(self, other: object) -> Any:
            return "right"

    def by_operators(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1, a + b, a == b, a < b

    compiled, made = compile(by_super), Own()
    x = torch.zeros(1)
    for bases in ((First,), (Second,), (First,), (Second, First)):
        Own.__bases__ = bases
        for _ in range(3):
            assert compiled(x, made).item() == by_super(x, made).item()
    compiled = compile(by_operators)
    for bases in ((Left,), (Apart,), (Left,)):
        Right.__bases__ = bases
        for _ in range(3):
            assert compiled(x, Left(), Right())[1:] == by_operators(x, Left(), Right())[1:]


def test_descriptors_whose_class_gains_a_method() -> None:
    class Descriptor:
        def __init__(self, number: int) -> None:
            self.number = number

    class Getting(Descriptor):
        def __get__(self, instance: Any, owner: Any) -> int:
            return self.number

    class Holder:
        plain = Descriptor(10)
        getting = Getting(20)

    def f(holder: Any, value: Any) -> Any:
        plain = holder.plain
        return value * holder.getting + (plain if isinstance(plain, int) else plain.number)

    def g(holder: Any, value: Any) -> Any:
        holder.getting = 7
        return value + vars(holder).get("getting", 0)

    holder = Holder()
    vars(holder).update(getting=1, plain=2)
    both = [compile(f), compile(g)]

    def check() -> None:
        for call, compiled in zip((f, g), both, strict=True):
            mine, theirs = Holder(), Holder()
            vars(mine).update(vars(holder))
            vars(theirs).update(vars(holder))
            assert torch.equal(compiled(theirs, x()), call(mine, x()))
            assert vars(theirs) == vars(mine)

    check()
    stored: list[Any] = []
    changes = [
        (Getting, "__set__", lambda self, instance, value: stored.append(value)),
        (Descriptor, "__get__", lambda self, instance, owner: self.number * 2),
        (Descriptor, "__set__", lambda self, instance, value: stored.append(value)),
    ]
    for cls, name, method in changes:
        setattr(cls, name, method)
        check()
        check()
    for cls, name, _ in reversed(changes):
        delattr(cls, name)
        check()


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy])
def test_a_reducer_that_a_class_gets_later(function: Any) -> None:
    class Plain:
        def __init__(self) -> None:
            self.n = 2

    made = Plain()
    made.n = 5

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * function(made).n

    compiled = compile(f)
    assert torch.equal(compiled(x()), x() * 5)
    copyreg.pickle(Plain, lambda plain: (Plain, ()))  # type: ignore[arg-type]
    try:
        assert torch.equal(compiled(x()), x() * 2)
    finally:
        copyreg.dispatch_table.pop(Plain)
    assert torch.equal(compiled(x()), x() * 5)


def test_texts_of_errors_about_what_is_no_sequence() -> None:
    class WithItems:
        def __getitem__(self, index: int) -> int:
            return index

    def told(value: Any) -> str:
        try:
            reversed(value)
        except TypeError as error:
            return str(error)
        return ""

    def spread(value: Any) -> str:
        def inner(*args: Any) -> int:
            return len(args)

        try:
            inner(*value)
        except TypeError as error:
            return str(error)
        return ""

    for f in (told, spread):
        compiled = compile(f)
        for value in (WithItems(), 5, object(), [1]):
            if f is told or not isinstance(value, WithItems):
                assert [compiled(value) for _ in range(2)] == [f(value)] * 2
