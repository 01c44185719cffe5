"""Side effects on attributes of modules and functions."""

import math
import sys
import types

from programs import program

# Modules and functions.

this = sys.modules[__name__]
LEVEL = 1
settings = types.ModuleType("settings")


def _reset_modules():
    this.LEVEL = 1
    this.__dict__.pop("ADDED", None)
    settings.__dict__.clear()
    settings.__dict__.update(__name__="settings", factor=2, names=["a"])
    for f in (tagged, tagged_with_state):
        f.__dict__.clear()


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: vars(settings).items().__len__())
def module_attributes(x):
    settings.factor += 1
    settings.names.append("b")
    settings.late = x * settings.factor
    del settings.factor
    return settings.late, settings.names, hasattr(settings, "factor")


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: (LEVEL, this.__dict__.get("ADDED")))
def own_module_by_attribute_and_by_name(x):
    global LEVEL
    this.LEVEL = 5
    first = LEVEL
    LEVEL = 6
    this.ADDED = [x]
    return first, this.LEVEL, ADDED[0] + 1  # noqa: F821


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: settings.__dict__.get("first"))
def module_attribute_deleted_and_missed(x):
    messages = []
    settings.first = x
    del settings.names
    for act in (lambda: settings.names, lambda: delattr(settings, "names")):
        try:
            act()
        except AttributeError as error:
            messages.append(str(error))
    return messages, settings.first + 1, math.pi


def tagged(x):
    return x * getattr(tagged, "scale", 1)


def tagged_with_state(x):
    tagged_with_state.calls = getattr(tagged_with_state, "calls", 0) + 1
    tagged_with_state.last = x
    return x + tagged_with_state.calls


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: (vars(tagged), vars(tagged_with_state)))
def attributes_of_functions(x):
    first = tagged(x)
    tagged.scale = 3
    tagged.history = [first]
    y = tagged_with_state(tagged_with_state(tagged(x)))
    return y, hasattr(tagged, "nothing"), tagged.history[0] is first


@program("fx_functions")
def attributes_of_a_new_function(x):
    def inner(y):
        inner.calls += 1
        return y + inner.calls

    inner.calls = 0
    inner.note = "note"
    result = inner(inner(x))
    inner.__name__ = "renamed"
    return result, inner.calls, inner


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: vars(tagged))
def attribute_of_a_function_deleted(x):
    tagged.scale = 3
    tagged.kept = x
    y = tagged(x)
    del tagged.scale
    try:
        del tagged.scale
    except AttributeError as error:
        return y, str(error), tagged(x)
    return None


@program("fx_functions", setup=lambda: _reset_modules(), state=lambda: vars(tagged))
def function_dict_written(x):
    tagged.__dict__["scale"] = 2
    vars(tagged)["more"] = x
    return tagged(x), tagged.more


def _with_default(x, k=1, *, m=2):
    return x * k + m


def _reset_defaults():
    _with_default.__defaults__, _with_default.__kwdefaults__ = (1,), {"m": 2}


@program(
    "fx_functions", setup=_reset_defaults, state=lambda: (_with_default.__defaults__, _with_default.__kwdefaults__)
)
def defaults_of_an_existing_function_written_inside(x):
    first = _with_default(x)
    _with_default.__kwdefaults__["m"] = 5
    return first, _with_default(x)


class Method:
    def run(self, x):
        return x * self.run.__func__.scale

    run.scale = 2


def _reset_method():
    Method.run.__dict__.clear()
    Method.run.scale = 2


@program("fx_functions", lambda t: (t(), Method()), setup=_reset_method, state=lambda: vars(Method.run))
def attributes_of_a_method(x, m):
    y = m.run(x)
    Method.run.scale = 4
    Method.run.seen = y
    try:
        m.run.scale = 1
    except AttributeError:
        y = y + 1
    return y, m.run(x), m.run.seen is Method.run.seen
