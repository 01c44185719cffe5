"""Torch function modes and torch dispatch modes, inside and around compiled calls, over plain tensors and classes."""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from subclasses import program
from subclasses.classes import LOG, Inheriting, Logged, name_of, numbers, tagged, two


class Doubling(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


class Naming(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append(f"mode {name_of(func)}")
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        LOG.append(str(func))
        return func(*args, **(kwargs or {}))


@program(lambda: [(Doubling(), numbers()), (Doubling(), numbers(2))])
def entered_inside(mode, x):
    with mode:
        y = torch.sin(x)
    return y + torch.sin(x), mode.calls


@program(lambda: [(numbers(),)] * 2, around=Doubling)
def entered_around(x):
    return torch.sin(x) + 1


@program(lambda: [(numbers().as_subclass(Logged),)] * 2, state=lambda: list(LOG), setup=LOG.clear)
def a_mode_over_a_class(x):
    with Naming():
        y = torch.sin(x)
    return y


@program(lambda: [(numbers(),)] * 2, state=lambda: list(LOG), setup=LOG.clear)
def two_modes(x):
    with Naming(), Doubling() as inner:
        y = torch.sin(x)
    return y, inner.calls


@program(lambda: [(numbers(),)] * 2, state=lambda: list(LOG), setup=LOG.clear)
def dispatched_inside(x):
    with Dispatched():
        y = x.sin() + 1
    return y * 2


@program(lambda: [(numbers(),)] * 2, around=Dispatched, state=lambda: list(LOG), setup=LOG.clear)
def dispatched_around(x):
    return x.sin() + 1


@program(lambda: [(tagged(),)] * 2, around=Dispatched)
def a_class_under_dispatch(x):
    return x.sin() + 1


@program(lambda: [(two(3),)] * 2, around=Dispatched)
def a_wrapper_under_dispatch(x):
    return x.sin() + 1


@program(lambda: [(numbers().as_subclass(Inheriting),)] * 2, around=torch._C.DisableTorchFunctionSubclass)
def handlers_off_around(x):
    return x.sin() + 1, torch.cos(x)


@program(lambda: [(numbers(),)] * 2, around=lambda: contextlib.nullcontext())
def a_mode_in_a_generator(x):
    def steps():
        with Doubling():
            yield torch.sin(x)
            yield torch.sin(x) + 1

    return list(steps())
