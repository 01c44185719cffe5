"""Global state: modes, flags, default types, warnings and context variables, as later code sees and inherits them."""

import contextlib
import contextvars
import functools
import warnings

import torch
from torch.overrides import TorchFunctionMode

from programs import program

CATEGORY = "fx_modes"

# ---- grad mode


@program(CATEGORY, lambda t: (t(grad=True), []), known="an exception inside no_grad leaving gradients off")
def exception_inside_no_grad(x, log):
    try:
        with torch.no_grad():
            y = x * 2
            raise ValueError("inside")
    except ValueError:
        log.append(torch.is_grad_enabled())
    return y, x * 3


@program(CATEGORY, lambda t: (t(grad=True), []), known="an exception inside no_grad leaving gradients off")
def exception_inside_nested_modes(x, log):
    for depth in range(2):
        try:
            with torch.no_grad(), torch.enable_grad():
                with torch.set_grad_enabled(bool(depth)):
                    log.append(torch.is_grad_enabled())
                    y = x * 2
                    raise KeyError(depth)
        except KeyError as error:
            log.append((torch.is_grad_enabled(), error.args))
    return y, x * 3


@program(CATEGORY, lambda t: (t(grad=True), []), known="an exception inside no_grad leaving gradients off")
def exception_leaves_a_decorated_function(x, log):
    @torch.no_grad()
    def frozen(y, fail):
        log.append(torch.is_grad_enabled())
        if fail:
            raise RuntimeError("frozen")
        return y * 2

    a = frozen(x, False)
    try:
        frozen(x, True)
    except RuntimeError:
        log.append(torch.is_grad_enabled())
    return a, x * 2


@program(
    CATEGORY,
    lambda t: (t(grad=True), []),
    hits=False,
    misses=False,
    known="an exception inside no_grad leaving gradients off",
)
def exception_leaves_the_function(x, log):
    with torch.no_grad():
        log.append(x.sum())
        raise ValueError("out")


MADE = torch.no_grad()


@program(CATEGORY, lambda t: (t(grad=True),), known="a grad-mode object made before a break")
def grad_mode_object_made_before(x):
    manager = torch.no_grad()
    with torch.enable_grad():
        a = x * 2
    with manager:
        b = x * 3
    with MADE:
        c = x * 4
    return a, b, c, torch.is_grad_enabled()


@program(
    CATEGORY,
    lambda t: (t(grad=True), torch.set_grad_enabled(True), torch.no_grad()),
    known="a grad-mode object made before a break",
)
def grad_mode_objects_as_arguments(x, on, off):
    with off:
        a = x * 2
        with on:
            b = x * 3
        c = x * 4
    return a, b, c


class Switch:
    def __init__(self, manager):
        self.manager = manager


@program(CATEGORY, lambda t: (t(grad=True), Switch(torch.no_grad())), known="a grad-mode object made before a break")
def grad_mode_object_kept_on_an_object(x, switch):
    """Entered twice, each time from another mode."""
    with switch.manager:
        a = x * 2
    with torch.no_grad():
        with switch.manager:
            b = x * 3
        c = x * 4
    return a, b, c, torch.is_grad_enabled()


@program(CATEGORY, lambda t: (t(grad=True),))
def mode_changes_with_nothing_between(x):
    with torch.no_grad():
        pass
    torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)
    with torch.enable_grad(), torch.no_grad():
        k = 2
    return x * k


@program(CATEGORY, lambda t: (t(grad=True),))
def grad_mode_left_off_and_object_returned(x):
    y = x * 2
    previous = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    return y, previous, x * 2


@program(CATEGORY, lambda t: (t(grad=True), []))
def grad_mode_in_generators(x, log):
    def produce():
        with torch.no_grad():
            log.append(torch.is_grad_enabled())
            yield x * 2
            log.append(torch.is_grad_enabled())
            yield x * 3

    made = []
    for y in produce():
        made.append((y, torch.is_grad_enabled()))
    return made, x * 4


@program(CATEGORY, lambda t: (t(grad=True), []))
def grad_mode_read_by_callees(x, log):
    def ask(y):
        log.append(torch.is_grad_enabled())
        return y * 2 if torch.is_grad_enabled() else y.detach()

    a = ask(x)
    with torch.no_grad():
        b = ask(x)
    with torch.inference_mode():
        c = ask(x)
    return a, b, c


@torch.no_grad()
def _decorated(x):
    return x * 2


class Frozen:
    @torch.no_grad()
    def run(self, x):
        return x * 3

    @classmethod
    @torch.enable_grad()
    def make(cls, x):
        return x * 4


@program(CATEGORY, lambda t: (t(grad=True), Frozen()))
def decorated_functions_of_every_kind(x, frozen):
    with torch.no_grad():
        thawed = frozen.make(x)
    return _decorated(x), frozen.run(x), thawed, torch.is_grad_enabled()


@program(CATEGORY, lambda t: (t(grad=True),), backward=True)
def write_under_no_grad(x):
    y = x * 2
    with torch.no_grad():
        y.add_(1)
        z = y.mul(2)
    return y, z.requires_grad


# ---- inference mode


@program(CATEGORY, lambda t: (t(grad=True), []))
def inference_mode_and_exception(x, log):
    try:
        with torch.inference_mode():
            y = x * 2
            log.append(torch.is_inference_mode_enabled())
            raise ValueError
    except ValueError:
        log.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
    return y.is_inference(), y, x * 3


@program(CATEGORY, lambda t: (t(grad=True),))
def inference_mode_as_a_decorator(x):
    @torch.inference_mode()
    def run(y):
        return y * 2

    return run(x), x * 3, torch.is_inference_mode_enabled()


# ---- autocast


@program(CATEGORY, lambda t: (t(t.n, 4), t(4, 2), []))
def autocast_and_exception(x, w, log):
    try:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
            raise ValueError
    except ValueError:
        log.append(torch.is_autocast_enabled("cpu"))
    return y, x @ w


@program(CATEGORY, lambda t: (t(t.n, 4), t(4, 2)))
def autocast_as_a_decorator(x, w):
    @torch.autocast("cpu", torch.bfloat16)
    def run(a, b):
        return a @ b, torch.is_autocast_enabled("cpu")

    return run(x, w), x @ w, torch.get_autocast_dtype("cpu")


@program(CATEGORY, lambda t: (t(t.n, 4), t(4, 2)))
def autocast_with_nothing_between(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        pass
    return x @ w


# ---- defaults and flags


@program(CATEGORY)
def default_dtype_left_changed(x):
    y = x + torch.ones(2)[0]
    torch.set_default_dtype(torch.float64)
    return y, torch.get_default_dtype()


@program(CATEGORY)
def default_dtype_put_back(x):
    before = torch.get_default_dtype()
    y = x * 2
    torch.set_default_dtype(torch.float64)
    inside = torch.get_default_dtype()
    torch.set_default_dtype(before)
    return y, inside, torch.get_default_dtype()


@program(CATEGORY, lambda t: (t(), []))
def default_dtype_changed_around_operations(x, log):
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(2) * 2
        log.append(y.dtype)
    finally:
        torch.set_default_dtype(torch.float32)
    return y, torch.ones(2), x + 1


@program(CATEGORY, lambda t: (t(), torch.arange(3)))
def default_dtype_decides_what_is_made(x, whole):
    torch.set_default_dtype(torch.float64)
    made = torch.tensor([1.5, 2]), torch.full((2,), 0.5), torch.arange(3), torch.rand(2), x * 2.5
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    return made, kept, torch.ones(1), whole * 2


@program(CATEGORY, lambda t: (torch.arange(3), []), misses=False)
def default_dtype_decides_what_whole_numbers_become(whole, log):
    torch.set_default_dtype(torch.float64)
    half = whole / 2
    torch.set_default_dtype(torch.float32)
    return half, whole + 1


@program(CATEGORY, lambda t: (torch.arange(1, 4), torch.tensor([True, False])), misses=False)
def default_dtype_decides_what_functions_of_whole_numbers_give(whole, flags):
    torch.set_default_dtype(torch.float64)
    made = torch.sin(whole), whole.div(3), 1 / whole, flags / 2, whole.sqrt(), whole.div(2, rounding_mode="floor")
    torch.set_default_dtype(torch.float32)
    return made, whole.sqrt()


@program(CATEGORY)
def deterministic_flag_left_changed(x):
    y = x * 2
    torch.use_deterministic_algorithms(True, warn_only=True)
    return y, torch.are_deterministic_algorithms_enabled()


@program(CATEGORY)
def deterministic_flag_put_back(x):
    before = torch.are_deterministic_algorithms_enabled()
    y = x.sum()
    torch.use_deterministic_algorithms(True)
    inside = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before)
    return y, inside


@program(CATEGORY)
def default_device_as_a_context(x):
    with torch.device("meta"):
        y = torch.ones(3)
    return y.device, x * 2, torch.ones(1).device


class Counting(TorchFunctionMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


@program(CATEGORY, lambda t: (t(), []))
def torch_function_mode(x, log):
    y = x.sin()
    with Counting(log):
        z = y.cos() + 1
        log.append("between")
        w = torch.relu(z)
    return w, y * 2


class Replacing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.relu:
            return func(args[0] - 1)
        if func is torch.Tensor.add:
            return torch.mul(*args)
        return func(*args, **(kwargs or {}))


@program(CATEGORY, lambda t: (t(), []))
def torch_function_modes_nested(x, log):
    with Counting(log), Replacing():
        y = torch.relu(x)
        with Counting(log):
            y = y + 3
        z = torch.sum(y, dim=0, keepdim=True)
    return y, z, torch.relu(x)


@program(CATEGORY, lambda t: (t(), []))
def torch_function_mode_left_by_an_exception(x, log):
    try:
        with Counting(log):
            y = x.sin()
            raise KeyError("out")
    except KeyError:
        log.append("caught")
    return y.cos() + 1


# ---- warnings


@program(CATEGORY, lambda t: (t(), []), why="a warning is issued by the call itself")
def warnings_issued_and_filtered(x, log):
    y = x * 2
    warnings.warn("first", UserWarning, stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden", UserWarning, stacklevel=2)
        log.append(len(warnings.filters) > 0)
    warnings.warn("last", DeprecationWarning, stacklevel=1)
    return y + 1


# ---- context variables

LEVEL: contextvars.ContextVar = contextvars.ContextVar("level", default=0)
NAME: contextvars.ContextVar = contextvars.ContextVar("name")
TOKENS: list = []


def _fresh_variables():
    LEVEL.set(0)
    NAME.set("none")
    TOKENS.clear()


def _variables():
    return LEVEL.get(), NAME.get(), len(TOKENS)


def variable(args=lambda t: (t(),), **more):
    return program(CATEGORY, args, setup=_fresh_variables, state=_variables, **more)


@variable(known="a ContextVar set after the graph")
def variable_set_after_the_graph(x):
    y = x * 2
    LEVEL.set(3)
    return y


@variable(known="a ContextVar set after the graph")
def variable_set_before_and_read(x):
    LEVEL.set(LEVEL.get() + 1)
    y = x * LEVEL.get()
    LEVEL.set(LEVEL.get() + 1)
    return y, LEVEL.get()


@variable(known="a ContextVar set after the graph")
def variable_set_and_reset(x):
    token = LEVEL.set(5)
    y = x + LEVEL.get()
    LEVEL.reset(token)
    return y, LEVEL.get()


@variable(known="a ContextVar set after the graph")
def variable_holds_a_tensor(x):
    NAME.set(x * 2)
    y = NAME.get() + 1
    NAME.set((y, [x]))
    return y


@variable()
def variable_token_kept(x):
    TOKENS.append(LEVEL.set(7))
    TOKENS.append(NAME.set("seven"))
    return x + 1, isinstance(TOKENS[0], contextvars.Token), TOKENS[0] is TOKENS[1]


@variable(
    lambda t: (t(), LEVEL.set(9)),
)
def variable_token_from_outside(x, token):
    y = x * LEVEL.get()
    LEVEL.reset(token)
    return y, LEVEL.get()


@variable(lambda t: (t(), LEVEL.set(9), []))
def variable_token_from_outside_after_a_set(x, token, log):
    LEVEL.set(4)
    LEVEL.reset(token)
    log.append(LEVEL.get())
    return x + LEVEL.get(7)


@variable(lambda t: (t(), contextvars.ContextVar("own", default=[1])))
def variable_as_an_argument(x, own):
    before = own.get()
    before.append(2)
    return x + len(own.get()), own.get("given"), own.get() is before


@variable(lambda t: (t(), []))
def variable_without_a_value(x, log):
    fresh = EMPTY
    log.append(fresh.get("default"))
    try:
        fresh.get()
    except LookupError:
        log.append("missing")
    return x + len(log)


EMPTY: contextvars.ContextVar = contextvars.ContextVar("empty")


@contextlib.contextmanager
def _level(n):
    token = LEVEL.set(n)
    try:
        yield n
    finally:
        LEVEL.reset(token)


@variable(lambda t: (t(), []))
def variable_in_a_context_manager(x, log):
    with _level(1):
        log.append(LEVEL.get())
        with _level(2):
            x = x * LEVEL.get()
        log.append(LEVEL.get())
    return x, LEVEL.get()


@variable(lambda t: (t(), []))
def variable_and_exception(x, log):
    try:
        with _level(4):
            log.append(LEVEL.get())
            raise ValueError("level")
    except ValueError:
        log.append(LEVEL.get())
    NAME.set("after")
    return x + LEVEL.get()


@variable(lambda t: (t(), []))
def variable_in_a_copied_context(x, log):
    def inner():
        LEVEL.set(8)
        return LEVEL.get()

    context = contextvars.copy_context()
    log.append(context.run(inner))
    log.append((LEVEL.get(), context[LEVEL]))
    return x + LEVEL.get()


@variable(lambda t: (t(), []))
def variables_of_contexts_are_apart(x, log):
    LEVEL.set(3)
    context = contextvars.copy_context()
    LEVEL.set(4)

    def inner(by, *, name):
        token = LEVEL.set(LEVEL.get() + by)
        NAME.set(name)
        log.append((LEVEL.get(), context[NAME], NAME in context))
        LEVEL.reset(token)
        return x * LEVEL.get()

    y = context.run(inner, 2, name="inner")
    return y, LEVEL.get(), context.get(LEVEL), NAME.get(), context.run(NAME.get)


# ---- managers of the program


class Scaled(contextlib.ContextDecorator):
    stack: list = []

    def __init__(self, by):
        self.by = by

    def __enter__(self):
        Scaled.stack.append(self.by)
        return self

    def __exit__(self, *exc):
        Scaled.stack.pop()
        return exc[0] is ArithmeticError


def _unscaled():
    Scaled.stack.clear()


def scaled(args=lambda t: (t(), []), **more):
    return program(CATEGORY, args, setup=_unscaled, state=lambda: Scaled.stack, **more)


@scaled(known="a local context manager's state")
def local_context_managers_state(x, log):
    manager = Scaled(2)
    with manager as same:
        log.append(list(Scaled.stack))
        x = x * same.by
    manager.by = 5
    with manager:
        x = x * Scaled.stack[-1]
    return x, manager.by, len(Scaled.stack)


@scaled(known="a local context manager's state")
def local_context_manager_swallows(x, log):
    with Scaled(3):
        x = x * Scaled.stack[0]
        raise ArithmeticError
    log.append(len(Scaled.stack))
    return x


@scaled(known="a local context manager's state")
def local_context_manager_left_open(x, log):
    manager = Scaled(4)
    manager.__enter__()
    log.append(manager)
    return x * Scaled.stack[-1]


@scaled()
def manager_as_a_decorator_with_modes(x, log):
    @Scaled(2)
    @torch.no_grad()
    def inner(y):
        log.append((list(Scaled.stack), torch.is_grad_enabled()))
        return y * Scaled.stack[-1]

    return inner(x), inner(x + 1), len(Scaled.stack)


@contextlib.contextmanager
def _frozen(log, **modes):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        log.append(sorted(modes))
        yield stack
    log.append(torch.is_grad_enabled())


@program(CATEGORY, lambda t: (t(grad=True), []))
def modes_in_an_exit_stack(x, log):
    with _frozen(log, a=1, b=2) as stack:
        stack.callback(log.append, "callback")
        y = x * 2
    return y, x * 3


@program(CATEGORY, lambda t: (t(grad=True), []))
def manager_chosen_at_run_time(x, log):
    made = []
    for flag in (True, False):
        with torch.no_grad() if flag else contextlib.nullcontext():
            made.append(x * 2)
            log.append(torch.is_grad_enabled())
    return made


@program(CATEGORY, lambda t: (t(grad=True), []))
def modes_entered_by_hand(x, log):
    off = torch.no_grad()
    off.__enter__()
    a = x * 2
    log.append(torch.is_grad_enabled())
    off.__exit__(None, None, None)
    return a, x * 2, off.prev


@functools.lru_cache(maxsize=None)
def _cached_mode(flag):
    return torch.set_grad_enabled


@program(CATEGORY, lambda t: (t(grad=True),))
def mode_function_reached_indirectly(x):
    choose = {"on": torch.enable_grad, "off": torch.no_grad}
    with choose["off"]():
        y = x * 2
        with choose["on"]():
            z = x * 3
    return y, z


# ---- an operation that fails while a mode is on: its error comes from the data


@program(
    CATEGORY,
    lambda t: (t(grad=True), torch.tensor([99])),
    known="an exception inside no_grad leaving gradients off",
    plain="its graph raises",
)
def lookup_fails_inside_no_grad(x, index):
    try:
        with torch.no_grad():
            y = x[index]
    except IndexError:
        y = x * 2
    return y, torch.is_grad_enabled()


@program(
    CATEGORY,
    lambda t: (t(grad=True), torch.tensor([99])),
    known="an exception inside no_grad leaving gradients off",
    plain="its graph raises",
)
def lookup_fails_under_several_modes(x, index):
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
            y = x[index]
    except IndexError:
        y = x * 2
    return y, torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()


@program(CATEGORY, lambda t: (t(grad=True), torch.tensor([99])), plain="its graph raises")
def lookup_fails_after_the_mode_was_left_off(x, index):
    torch.set_grad_enabled(False)
    return x[index]


@variable(lambda t: (t(), [1]), known="a ContextVar set after the graph")
def variable_holds_a_list_that_grows(x, row):
    NAME.set(row)
    NAME.get().append(x)
    row.append(2)
    NAME.get()[0] += 1
    return NAME.get()[0] * x


@variable(lambda t: (t(), {"var": LEVEL}), known="a ContextVar set after the graph")
def variable_reached_by_two_ways(x, table):
    LEVEL.set(3)
    table["var"].set(LEVEL.get() + 1)
    return x * LEVEL.get(), table["var"] is LEVEL


@variable()
def variable_set_in_a_loop(x):
    tokens = [LEVEL.set(i) for i in range(3)]
    x = x * LEVEL.get()
    while tokens:
        LEVEL.reset(tokens.pop())
    return x, LEVEL.get()


@variable(lambda t: (t(), []))
def variable_read_by_generators_and_callees(x, log):
    def produce():
        for _ in range(2):
            LEVEL.set(LEVEL.get() + 1)
            yield LEVEL.get()

    for level in produce():
        log.append((level, LEVEL.get()))
    return x + LEVEL.get()


@program(CATEGORY, lambda t: (t(grad=True), []))
def mode_objects_in_a_list(x, made):
    for manager in [torch.no_grad(), torch.enable_grad(), torch.inference_mode()]:
        with manager:
            made.append(x * 2)
    return [m.requires_grad for m in made]


@program(CATEGORY, lambda t: (t(grad=True), [torch.no_grad()]), known="a grad-mode object made before a break")
def grad_mode_object_kept_and_used_again(x, kept):
    with kept[0]:
        a = x * 2
    with kept[0]:
        b = x * 3
    kept.append(torch.enable_grad())
    return a, b, x * 4
