"""Context managers, of the user and of torch."""

import contextlib

import torch

from programs import program


class Logged:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", self.name, kind and kind.__name__, str(value)))
        return self.swallow


@program("contexts", lambda t: (t(), []))
def user_context_managers(x, log):
    with Logged(log, "a") as a, Logged(log, "b") as b:
        x = x + 1
        log.append(a.name + b.name)
    with Logged(log, "c", swallow=True):
        x = x * 2
        raise ValueError("inside")
    return x


@program("contexts", lambda t: (t(), []))
def leaving_a_with_early(x, log):
    def inner(i):
        for j in range(3):
            with Logged(log, (i, j)):
                if j == i:
                    return x + j
                if j == 0:
                    continue
                break
        return x

    return [inner(i) for i in range(3)]


@contextlib.contextmanager
def _noted(log, name):
    log.append(name)
    try:
        yield name.upper()
    except KeyError as error:
        log.append(("caught", str(error)))
    finally:
        log.append(-len(name))


@program("contexts", lambda t: (t(), []))
def generator_context_manager(x, log):
    with _noted(log, "ab") as upper:
        x = x + len(upper)
    with _noted(log, "c"):
        {}["lost"]
    with contextlib.suppress(ValueError), _noted(log, "d"):
        raise ValueError
    return x, upper


@program("contexts", lambda t: (t(), []))
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        for name in "xyz":
            stack.enter_context(Logged(log, name))
        stack.callback(log.append, "callback")
        x = x * 2
    return x, log[-1]


@program("contexts", lambda t: (t(), []), one_graph=False, hits=False)  # a new class each time
def small_contextlib_helpers(x, log):
    class Thing:
        def close(self):
            log.append("close")

    with contextlib.nullcontext(5) as five:
        x = x + five
    with contextlib.closing(Thing()) as thing:
        log.append(type(thing).__name__)
    return x


class Doubling(contextlib.ContextDecorator):
    depth = 0

    def __enter__(self):
        Doubling.depth += 1
        return self

    def __exit__(self, *exc):
        Doubling.depth -= 1
        return False


def _no_depth():
    Doubling.depth = 0


@program("contexts", setup=_no_depth, state=lambda: Doubling.depth)
def context_decorator(x):
    @Doubling()
    def inner(y):
        return y * Doubling.depth

    with Doubling():
        return inner(x) + Doubling.depth


@program("contexts", lambda t: (t(grad=True),))
def grad_modes(x):
    modes = [torch.is_grad_enabled()]
    with torch.no_grad():
        modes.append(torch.is_grad_enabled())
        a = x * 2
        with torch.enable_grad():
            modes.append(torch.is_grad_enabled())
            b = x * 3
    with torch.set_grad_enabled(False):
        c = x * 4
    d = x * 5
    return a, b, c, d, modes


@program("contexts", lambda t: (t(grad=True), False), backward=True)
def grad_mode_decorators(x, flag):
    @torch.no_grad()
    def frozen(y):
        return y.sin()

    @torch.set_grad_enabled(flag)
    def maybe(y):
        return y.cos()

    return x * 2 + frozen(x) + maybe(x), frozen(x)


@program("contexts", lambda t: (t(grad=True),))
def grad_mode_left_changed(x):
    y = x * 2
    torch.set_grad_enabled(False)
    return y, x * 3


@program("contexts")
def inference_mode(x):
    with torch.inference_mode():
        y = x + 1
        inside = torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            outside = torch.is_inference_mode_enabled()
    return y, inside, outside, y.is_inference(), torch.is_inference_mode_enabled()


@program("contexts", lambda t: (t(t.n, 4), t(4, 2)))
def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        on = torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    return y, z, on, torch.is_autocast_enabled("cpu"), y.dtype


@program("contexts", lambda t: (t(grad=True), []))
def exceptions_leave_the_mode_behind(x, log):
    try:
        with torch.no_grad():
            log.append(torch.is_grad_enabled())
            y = x + 1
            raise ValueError("out")
    except ValueError:
        log.append(torch.is_grad_enabled())
    return y * x


@program("contexts")
def unused_contexts(x):
    manager = torch.no_grad()
    made = contextlib.nullcontext()
    with made:
        pass
    return x + 1 if manager else x


@program("contexts", lambda t: (t(), []))
def with_inside_generators(x, log):
    def produce():
        with Logged(log, "g"):
            yield x + 1
            yield x + 2

    return [y * 2 for y in produce()]


@program("contexts", lambda t: (t(), []), one_graph=False, hits=False)  # a new class each time
def with_targets(x, log):
    class Pair:
        def __enter__(self):
            return x, [x + 1, 3]

        def __exit__(self, *exc):
            log.append(exc)

    holder = {}
    with Pair() as (a, [b, holder["k"]]):
        pass
    with Pair() as holder["all"]:
        pass
    return a + b, holder
