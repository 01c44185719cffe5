"""Attributes of tensors behind properties and other descriptors, and `__dict__` of tensors, as in medical imaging."""

import copy
import itertools
from typing import Any

import torch

from subclasses import program
from subclasses.classes import numbers


class Clamped:
    """A descriptor that stores elsewhere."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.__dict__.get("_clamped", -1)

    def __set__(self, instance: Any, value: Any) -> None:
        instance._clamped = max(0, value)

    def __delete__(self, instance: Any) -> None:
        del instance._clamped


class Described(torch.Tensor):
    """Results take over the whole dict of the first argument of the class."""

    clamped = Clamped()

    @staticmethod
    def found(*args: Any) -> Any:
        for arg in itertools.chain(*args):
            if isinstance(arg, (list, tuple)):
                yield from Described.found(arg)
            elif isinstance(arg, Described):
                yield arg

    @property
    def is_batch(self) -> bool:
        return getattr(self, "_is_batch", False)

    @is_batch.setter
    def is_batch(self, value: bool) -> None:
        self._is_batch = value

    @property
    def only_read(self) -> int:
        return 3

    def take_from(self, others: Any) -> None:
        first = next(iter(others), self).__dict__
        self.__dict__.update({key: copy.copy(first[key]) for key in first})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = super().__torch_function__(func, types, args, kwargs)
        if type(result) is Described:
            is_batch = any(each.is_batch for each in Described.found(args, kwargs.values()))
            result.take_from(Described.found(args, kwargs.values()))
            result.is_batch = is_batch
        return result


def described(*size: int, **attributes: Any) -> Any:
    made = numbers(*size).as_subclass(Described)
    made.__dict__.update(attributes)
    return made


@program(lambda: [(described(3, space="RAS", history=[1]),)] * 2 + [(described(3, other=2, _is_batch=True),)])
def results_take_the_dict(x):
    return (x * 2).relu()


@program(lambda: [(described(3, a=1), described(3, b=2))] * 2)
def of_the_first_of_two(x, y):
    return x + y, torch.stack([y, x])


@program(lambda: [(described(3),)] * 2)
def set_by_a_property(x):
    y = x.sin()
    y.is_batch = True
    return y, y.is_batch, x.is_batch, y.__dict__ == {"_is_batch": True}


@program(lambda: [(described(3),)] * 2)
def an_argument_is_set_by_a_property(x):
    x.is_batch = not x.is_batch
    return x.cos()


@program(lambda: [(described(3),)] * 2)
def without_a_setter(x):
    try:
        x.only_read = 4
    except AttributeError as error:
        return x + 1, str(error)


@program(lambda: [(described(3),), (described(3, _clamped=4),)])
def set_by_a_descriptor(x):
    before = x.clamped
    x.clamped = -2
    y = x.exp()
    del x.clamped
    return y, before, y.clamped, x.clamped


@program(lambda: [(described(3, a=1, b=[2]),), (described(3, b=[2], a=1),)])
def the_dict_is_read(x):
    names = x.__dict__
    return x.sin(), list(names), names["a"], names.get("c"), len(names), "b" in names, sorted(names.items(), key=str)


@program(lambda: [(described(3, a=1),)] * 2)
def the_dict_is_written(x):
    names = x.__dict__
    names["b"] = 2
    del names["a"]
    x.c = names.pop("b")
    return x.tan(), dict(names), names is x.__dict__


@program(lambda: [(numbers(3),)] * 2)
def of_a_plain_tensor(x):
    y = x * 2
    y.__dict__["kept"] = 5
    y.more = [6]
    return y, y.kept, dict(y.__dict__), x.__dict__, vars(y) is y.__dict__


@program(lambda: [(described(3, a=[1]),)] * 2)
def the_dict_is_shared_with_a_result(x):
    y = x.detach()
    x.__dict__["a"].append(2)
    return y, y.a, x.a


@program(lambda: [(described(3, a=1).requires_grad_(),)] * 2, backward=True)
def trained(x):
    y = x * x
    y.__dict__.update(gained=1)
    return y.exp(), y.grad, list(y.__dict__)


@program(lambda: [(described(3),), (described(3, late=1),), (described(3),)])
def keys_differ(x):
    return (x.sin() if "late" in x.__dict__ else x.cos()), hasattr(x, "late")


@program(lambda: [(described(3, a=1, b=2),)] * 2)
def deleted_and_set_again(x):
    y = x.sin()
    del y.a
    y.a = 3
    del x.a
    x.a = 4
    return y, list(y.__dict__), list(x.__dict__)


@program(lambda: [(described(3, a=1),)] * 2)
def replaced_whole(x):
    y = x.sin()
    y.__dict__ = {"b": 2}
    return y, y.__dict__


@program(lambda: [(described(3, k=[1]),)] * 2)
def copied(x):
    y = x * 1
    y.k = [1]
    deep, shallow = copy.deepcopy(y), copy.copy(y)
    return deep.__dict__, shallow.__dict__, deep.k is y.k, shallow.k is y.k, copy.deepcopy(x).__dict__


@program(lambda: [(described(3, k=[1]),)] * 2)
def made_of_it(x):
    parameter, buffer = torch.nn.Parameter(x.as_subclass(torch.Tensor)), torch.nn.Buffer(x)
    return parameter.__dict__, buffer.__dict__, x.view(-1).__dict__, list(x.data.__dict__)


@program(lambda: [(described(3, k=[1]),)] * 2)
def methods_of_the_dict(x):
    x.__dict__.clear()
    x.__dict__.setdefault("m", 3)
    x.__dict__ |= {"z": 1}
    return dict(x.__dict__), x.__dict__.copy(), {**x.__dict__}, [*x.__dict__.items()], x.m


@program(lambda: [(described(3, k=[1]),)] * 2)
def asked_for_in_other_ways(x):
    return x + 1, object.__getattribute__(x, "__dict__"), hasattr(x, "__dict__"), "k" in vars(x), dir(x).count("k")
