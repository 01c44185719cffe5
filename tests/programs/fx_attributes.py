"""Side effects on attributes: instance dicts, slots, and what an error in the middle leaves."""

import types

import torch

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


# Instance dicts.


@program("fx_attributes", lambda t: (t(), Bag(a=1, b=t())))
def written_twice_read_between(x, bag):
    bag.a = x
    first = bag.a + 1
    bag.a = first * 2
    return first, bag.a


@program("fx_attributes", lambda t: (t(), Bag(a=1, b=2, c=3)))
def deleted_then_written_goes_to_the_end(x, bag):
    del bag.a
    bag.d = x
    bag.a = 4
    del bag.c
    bag.c = x + 1
    return list(bag.__dict__)


@program("fx_attributes", lambda t: (t(), Bag(a=1)))
def deleting_what_is_not_there(x, bag):
    messages = []
    for name in ("missing", "a", "a", "kind"):
        try:
            delattr(bag, name)
        except AttributeError as error:
            messages.append(str(error))
    return x + len(messages), messages


@program("fx_attributes", lambda t: (t(), Bag(a=1)))
def written_and_deleted_again(x, bag):
    bag.temporary = x + 1
    y = bag.temporary * 2
    del bag.temporary
    bag.a = bag.a
    return y, hasattr(bag, "temporary")


@program("fx_attributes", lambda t: (t(), Bag()))
def instance_shadows_class_and_back(x, bag):
    seen = [bag.kind]
    bag.kind = x
    seen.append(bag.kind)
    del bag.kind
    seen.append(bag.kind)
    return seen


@program("fx_attributes", lambda t: (t(), Bag(items=[1], table={"k": 1})))
def augmented_assignments_of_attributes(x, bag):
    kept = bag.items
    bag.items += [x]
    bag.table |= {"m": x + 1}
    bag.count = 1
    bag.count <<= 3
    return kept is bag.items, bag.table, x * bag.count


@program("fx_attributes", lambda t: (t(), Bag(a=Bag(b=Bag(c=t())))))
def chains_of_attributes(x, bag):
    bag.a.b.c = bag.a.b.c + x
    bag.a.b.d = bag.a
    bag.a.b.d.b.e = bag.a.b.c * 2
    return bag.a.b.e


@program("fx_attributes", lambda t: (t(), Bag(a=1)))
def vars_is_the_live_dict(x, bag):
    names = vars(bag)
    names["b"] = x
    bag.c = 2
    del names["a"]
    before = sorted(names)
    names.update(d=x + 1)
    return before, bag.b + bag.d, "c" in names, len(names), names is bag.__dict__


@program("fx_attributes", lambda t: (t(), Bag(a=1, b=2)))
def methods_of_the_instance_dict(x, bag):
    names = bag.__dict__
    popped = names.pop("a")
    absent = names.pop("zz", None)
    names.setdefault("c", x)
    names.setdefault("b", 5)
    pairs = [(k, v) for k, v in names.items()]
    names.pop("b")
    return popped, absent, pairs, list(names.values())


@program("fx_attributes", lambda t: (t(), Bag(a=1), Bag(b=t())))
def one_instance_dict_updates_another(x, p, q):
    p.__dict__.update(q.__dict__)
    p.__dict__.update({"c": x}, d=3)
    q.b = x * 2
    return p.b, dict(vars(p)), {**vars(q)}


@program("fx_attributes", lambda t: (t(), Bag(a=1)))
def instance_dict_kept_elsewhere(x, bag):
    bag.own = bag.__dict__
    bag.b = x
    return bag.own is vars(bag), bag.own["b"] + 1


@program("fx_attributes", lambda t: (t(), Bag(a=1, b=2)))
def instance_dict_cleared(x, bag):
    bag.__dict__.clear()
    bag.z = x
    bag.a = 9
    return list(vars(bag)), bag.kind


@program("fx_attributes", lambda t: (t(), Bag(a=1)))
def computed_names(x, bag):
    for i in range(4):
        setattr(bag, f"part_{i}", x * i)
    for i in (0, 2):
        delattr(bag, "part_" + str(i))
    return [getattr(bag, f"part_{i}", None) for i in range(5)], sorted(vars(bag))


@program("fx_attributes", lambda t: (Bag(a=t(), b=t(), c=1),))
def swaps_of_three(s):
    s.a, s.b = s.b, s.a
    s.b, s.c, s.a = s.a, s.b, s.c
    s.a, s.a = s.b, s.c
    return s.a


@program("fx_attributes", lambda t: (t(), Bag(v=1), Bag(v=2)))
def swapped_through_two_names_of_one(x, p, q):
    r = p
    p.v, r.v = q.v, x
    q.v, p.v = r.v, p
    return p.v is r, q.v is x


@program("fx_attributes", lambda t: (t(), types.SimpleNamespace(a=1)))
def simple_namespaces(x, space):
    space.b = x
    del space.a
    made = types.SimpleNamespace(c=x + 1, d=space)
    made.d.e = made.c
    return made, space.e is made.c, len(vars(space))


# Slots.


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y=None):
        self.x = x
        if y is not None:
            self.y = y


class Point3(Point):
    __slots__ = ("z",)


@program("fx_attributes", lambda t: (Point(t(), t()), Point(t())))
def slots_swapped_and_deleted(p, q):
    p.x, p.y = p.y, p.x
    q.y = q.x
    del q.x
    unset = hasattr(q, "x")
    q.x = p.y + 1
    del p.y
    return unset, hasattr(p, "y"), q.x


@program("fx_attributes", lambda t: (t(), Point(1)))
def slots_that_raise(x, p):
    messages = []
    for act in (
        lambda: p.y,
        lambda: delattr(p, "y"),
        lambda: setattr(p, "w", 1),
        lambda: p.__dict__,
        lambda: vars(p),
    ):
        try:
            act()
        except (AttributeError, TypeError) as error:
            messages.append((type(error).__name__, str(error)))
    return x + 1, messages


@program("fx_attributes", lambda t: (t(), Point3(1, 2)))
def slots_of_a_subclass(x, p):
    p.z = x
    p.x += 1
    q = Point3(p.z * 2)
    q.z = p
    return q, hasattr(q, "y")


class WeakSlots:
    __slots__ = ("value", "__weakref__", "__dict__")


@program("fx_attributes", lambda t: (t(), WeakSlots()))
def slots_beside_a_dict(x, w):
    w.value, w.free = x, 1
    made = WeakSlots()
    made.free, made.value = w.value + 1, w
    del w.free
    return made, vars(w), list(vars(made))


# An operation that fails inside `try` after an effect.


@program("fx_attributes", lambda t: (t(), t(3, 2), Bag()), known="an operation that fails inside try after an effect")
def failing_matmul_after_a_store(x, w, bag):
    try:
        bag.before = x
        y = torch.mm(x, w)
        bag.after = y
    except RuntimeError:
        bag.failed = True
        y = x + 1
    return y


@program("fx_attributes", lambda t: (t(), Bag(n=0)), known="an operation that fails inside try after an effect")
def failing_view_in_a_loop(x, bag):
    for k in (2, 7, 4):
        try:
            bag.n += 1
            bag.y = x.view(k, -1) if k != 7 else x.view(7, 7)
            bag.ok = k
        except RuntimeError as error:
            bag.errors = [*getattr(bag, "errors", []), type(error).__name__]
        finally:
            bag.last = k
    return bag.y.sum()


@program("fx_attributes", lambda t: (t(), Bag(items=[])), known="an operation that fails inside try after an effect")
def failing_attribute_after_an_append(x, bag):
    total = x
    for name in ("items", "absent"):
        try:
            bag.items.append(name)
            total = total + len(getattr(bag, name))
            bag.items.append("reached")
        except AttributeError:
            bag.items.append("missed")
    return total


@program("fx_attributes", lambda t: (t(), Point(1)), known="an operation that fails inside try after an effect")
def failing_unpack_after_two_targets(x, p):
    try:
        p.x, p.y, p.w = x, x + 1, 3
    except AttributeError:
        pass
    try:
        p.x, (p.y, _) = p.y, 5
    except TypeError:
        pass
    return p.x is p.y, p.x + 1
