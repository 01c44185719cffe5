"""Hooks of autograd: registered on inputs, parameters and intermediates; handles kept and removed; their order."""

import torch
from torch import nn

from programs import program

CATEGORY = "fx_hooks"

LOG: list = []
KEPT: list = []


def _clear():
    LOG.clear()
    KEPT.clear()


def _state():
    return LOG, KEPT


def note(grad):
    LOG.append(("note", grad.sum().item()))


def double(grad):
    LOG.append("double")
    return grad * 2


def on_accumulated(p):
    LOG.append(("accumulated", p.grad.sum().item()))


def hooked(args=lambda t: (t(grad=True),), **more):
    return program(CATEGORY, args, backward=True, setup=_clear, state=_state, **more)


# ---- on inputs


@hooked()
def hook_on_an_input(x):
    x.register_hook(note)
    return x * 2


@hooked()
def hook_on_an_input_after_its_use(x):
    y = x * 3
    x.register_hook(double)
    return y + x


@hooked()
def several_hooks_run_in_order(x):
    x.register_hook(note)
    x.register_hook(double)
    x.register_hook(lambda g: LOG.append(g.sum().item()))
    return (x * x).sum()


@hooked(lambda t: (t(grad=True), t()))
def hook_closes_over_an_argument(x, scale):
    def hook(grad):
        LOG.append("scaled")
        return grad * scale

    x.register_hook(hook)
    return x * 2


@hooked(known="reference to an intermediate kept by a hook")
def hook_keeps_an_intermediate(x):
    y = x.detach() * 2

    def hook(grad):
        LOG.append(y.sum().item())
        return grad + y

    x.register_hook(hook)
    return x.sin()


@hooked(known="reference to an intermediate kept by a hook")
def hook_keeps_a_written_intermediate(x):
    y = torch.zeros(2)
    x.register_hook(lambda g: LOG.append(y.tolist()))
    y.add_(1)
    return x.cos()


@hooked(known="reference to an intermediate kept by a hook")
def hook_keeps_several_intermediates(x):
    seen = {"a": x.detach().exp(), "b": [x.detach() + 1]}
    x.register_hook(lambda g: LOG.append(seen["a"].sum().item()) or g * seen["b"][0])
    seen["b"].append("late")
    KEPT.append(seen)
    return x * seen["a"]


@hooked()
def hook_writes_a_cell(x):
    calls = 0

    def hook(grad):
        nonlocal calls
        calls += 1
        LOG.append(calls)

    x.register_hook(hook)
    KEPT.append(lambda: calls)
    return x * 2 + calls


@hooked(lambda t: ([t(grad=True), t(grad=True), t(grad=True)],))
def hooks_made_in_a_loop(xs):
    for i, x in enumerate(xs):
        x.register_hook(lambda g, i=i: LOG.append(i))
    return xs[0] * xs[1] + xs[2]


class Recorder:
    def __init__(self):
        self.grads = []

    def __call__(self, grad):
        self.grads.append(grad.sum().item())

    def method(self, grad):
        self.grads.append("method")


@hooked(lambda t: (t(grad=True), Recorder()))
def hook_is_an_object_and_a_method(x, recorder):
    x.register_hook(recorder)
    x.register_hook(recorder.method)
    return x * 2


@hooked()
def hook_is_a_partial(x):
    import functools

    def hook(name, grad, *, more):
        LOG.append((name, more))

    x.register_hook(functools.partial(hook, "first", more=[1]))
    return x * 4


@hooked(lambda t: (nn.Parameter(t()), t()))
def hook_on_a_parameter(p, x):
    handle = p.register_hook(double)
    KEPT.append(handle)
    return (p * x).sum(), handle is KEPT[0]


@hooked(lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def hooks_on_all_parameters_of_a_module(module, x):
    for name, p in module.named_parameters():
        p.register_hook(lambda g, name=name: LOG.append(name))
    return module(x)


@hooked(lambda t: (t(grad=True) * 2,))
def hook_on_an_input_with_history(x):
    x.register_hook(double)
    return x.sin() + x


@hooked(lambda t: (lambda x: (x, x))(t(grad=True)))
def hook_on_one_tensor_by_two_names(x, y):
    x.register_hook(note)
    y.register_hook(double)
    return x * y


@hooked(lambda t: (t(), t(grad=True)))
def hook_on_what_needs_no_gradient(x, y):
    for method in (x.register_hook, x.register_post_accumulate_grad_hook):
        try:
            method(note)
        except RuntimeError as error:
            LOG.append(str(error))
    return x * y


@hooked(lambda t: (t(grad=True) * 2, t()))
def hooks_that_only_leaves_or_gradients_have(x, y):
    try:
        x.register_post_accumulate_grad_hook(note)
    except RuntimeError as error:
        LOG.append(str(error))
    try:
        y.retain_grad()
    except RuntimeError as error:
        LOG.append(str(error))
    return x * y


@hooked()
def hook_replaces_the_gradient_by_a_constant(x):
    zero = torch.zeros_like(x.detach())
    x.register_hook(lambda g: zero)
    return x.exp()


@hooked(lambda t: (t(grad=True), t(grad=True)))
def one_hook_on_two_tensors(x, y):
    counts = {"n": 0}

    def hook(grad):
        counts["n"] += 1

    for z in (x, y):
        z.register_hook(hook)
    KEPT.append(counts)
    return (x * y).sum()


@hooked(lambda t: (t(grad=True), [t(), t()]))
def hook_writes_into_an_argument(x, sums):
    x.register_hook(lambda g: sums[0].add_(g))
    sums[1].add_(1)
    return x * sums[1]


class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.norms = {}
        self.handles = []

    def watch(self):
        for name, p in self.named_parameters():
            self.handles.append(p.register_hook(lambda g, name=name: self.norms.__setitem__(name, g.sum().item())))

    def forward(self, x):
        if not self.handles:
            self.watch()
        return self.inner(x).relu()


@hooked(lambda t: (t.module(Watched), t(t.n, 3)))
def module_watches_its_own_gradients(module, x):
    return module(x)


@hooked(lambda t: (t.module(Watched), t(t.n, 3)))
def module_watches_and_lets_go(module, x):
    y = module(x)
    while module.handles:
        module.handles.pop().remove()
    return y


@hooked(lambda t: (t(grad=True), {"on": True}))
def hook_registered_under_a_condition(x, options):
    if options["on"]:
        options["handle"] = x.register_hook(double)
    else:
        options.pop("handle").remove()
    options["on"] = not options["on"]
    return x * 2


@hooked()
def hook_of_a_lambda_with_defaults(x):
    x.register_hook(lambda g, scale=3, *, log=LOG: log.append(scale))
    return x + 1


# ---- handles


@hooked()
def handle_returned(x):
    handle = x.register_hook(note)
    return x * 2, handle


@hooked(lambda t: (t(grad=True), {}))
def handle_stored(x, table):
    table["handle"] = None
    table["handle"] = x.register_hook(note)
    table["again"] = table["handle"]
    return x * 2


@hooked()
def handle_removed_at_once(x):
    x.register_hook(note)
    handle = x.register_hook(double)
    handle.remove()
    return x * 2


@hooked()
def handle_removed_twice_between_others(x):
    first = x.register_hook(note)
    second = x.register_hook(double)
    first.remove()
    third = x.register_hook(note)
    first.remove()
    KEPT.extend([second, third])
    return x * 2


@hooked()
def handle_as_context_manager(x):
    with x.register_hook(double):
        y = x * 2
    return y


@hooked()
def hook_removes_itself(x):
    def once(grad):
        LOG.append("once")
        handle.remove()

    handle = x.register_hook(once)
    return x * 2


def _with_handle(t):
    x = t(grad=True)
    return x, {"handle": x.register_hook(double)}


@hooked(_with_handle)
def handle_made_outside_removed_inside(x, table):
    table["handle"].remove()
    x.register_hook(note)
    return x * 2


@hooked(_with_handle)
def handle_made_outside_replaced(x, table):
    y = x * 3
    old = table["handle"]
    table["handle"] = x.register_hook(note)
    old.remove()
    return y


class Tracker:
    """Registers in one call and removes in the next."""

    def __init__(self, x):
        self.handle = None
        self.calls = 0


@hooked(lambda t: (lambda x: (x, Tracker(x)))(t(grad=True)))
def handle_kept_for_later_calls(x, tracker):
    if tracker.handle is not None:
        tracker.handle.remove()
    tracker.handle = x.register_hook(lambda g: LOG.append("kept"))
    tracker.calls += 1
    return x * tracker.calls


# ---- on intermediates


@hooked()
def hook_on_a_returned_intermediate(x):
    y = x * 2
    y.register_hook(double)
    return y


@hooked()
def hooks_on_returned_intermediates(x):
    y, z = x * 2, x.sin()
    z.register_hook(note)
    y.register_hook(lambda g: g * 3)
    KEPT.append(y)
    return y, z


@hooked()
def handle_of_an_intermediate_returned(x):
    y = x.exp()
    handle = y.register_hook(double)
    return y, handle


@hooked(why="what uses the intermediate comes after the registration, which is done on the real tensor")
def hook_on_an_intermediate_that_goes_on(x):
    y = x * 2
    y.register_hook(double)
    z = y.sin()
    z.register_hook(note)
    return z * y


@hooked(why="as above; and the segment ends where the intermediate is made")
def hook_on_an_intermediate_after_its_use(x):
    y = x * 2
    z = y.sin()
    y.register_hook(double)
    return z


@hooked(lambda t: (t(grad=True), t()), why="the write follows the registration")
def order_of_hook_and_write(x, y):
    z = x * 2
    z.register_hook(note)
    z.mul_(3)
    z.register_hook(double)
    return z + y


@hooked()
def hook_on_what_was_written_before(x):
    z = x * 2
    z.mul_(3)
    z.register_hook(double)
    return z


@hooked()
def gradient_retained(x):
    y = x * 2
    y.retain_grad()
    KEPT.append(y)
    return y, y.retains_grad


@hooked(lambda t: (t(grad=True) * 2, t(grad=True)))
def gradient_of_an_input_retained(x, leaf):
    x.retain_grad()
    leaf.retain_grad()
    return (x * leaf).sum(), leaf.retains_grad


# ---- after accumulation


@hooked()
def hook_after_accumulation(x):
    x.register_post_accumulate_grad_hook(on_accumulated)
    return x * 2


@hooked(lambda t: ([nn.Parameter(t()), nn.Parameter(t())],))
def hooks_after_accumulation_step_the_parameters(params):
    def step(p):
        LOG.append(p.grad.sum().item())
        with torch.no_grad():
            p.add_(p.grad, alpha=-0.1)
        p.grad = None

    for p in params:
        KEPT.append(p.register_post_accumulate_grad_hook(step))
    return params[0] * params[1]


@hooked()
def both_kinds_of_hook(x):
    x.register_post_accumulate_grad_hook(on_accumulated)
    handle = x.register_hook(double)
    x.register_post_accumulate_grad_hook(lambda p: LOG.append("second"))
    x.register_hook(note)
    handle.remove()
    return x * 2


@hooked(lambda t: (t(),))
def hooks_on_a_new_parameter(x):
    p = nn.Parameter(x.detach() * 2)
    p.register_hook(double)
    KEPT.append(p.register_post_accumulate_grad_hook(on_accumulated))
    return p


@hooked(lambda t: (t(),))
def hook_on_a_tensor_that_becomes_a_leaf(x):
    w = x * 2
    w.requires_grad_()
    w.register_hook(note)
    return w


@hooked()
def hook_after_accumulation_removed(x):
    handle = x.register_post_accumulate_grad_hook(on_accumulated)
    x.register_post_accumulate_grad_hook(lambda p: LOG.append(p is x))
    handle.remove()
    return x * 2


# ---- gradients inside


@hooked(why="backward runs for real")
def backward_inside(x):
    x.register_hook(note)
    y = (x * x).sum()
    y.backward()
    LOG.append("done")
    g = torch.autograd.grad((x * 3).sum(), x)[0]
    return x.grad + g


@hooked(lambda t: (t(grad=True), t(grad=True)))
def hooks_and_other_effects_in_order(x, y):
    LOG.append("start")
    x.register_hook(note)
    x.tag = LOG
    y.register_hook(double)
    LOG.append(len(x.tag))
    return x * y


@hooked()
def hook_registered_under_no_grad(x):
    with torch.no_grad():
        x.register_hook(double)
        y = x * 2
    return x * 3, y


@hooked()
def hook_registered_in_a_callee(x):
    def attach(t, name):
        def hook(grad):
            LOG.append(name)
            return grad.clamp(-0.5, 0.5)

        return t.register_hook(hook)

    handles = [attach(x, "a"), attach(x, "b")]
    handles[0].remove()
    return x * 2


@hooked(lambda t: (t(grad=True), [0.1, 0.2]), known="reference to an intermediate kept by a hook")
def hook_closes_over_a_list_that_changes(x, scales):
    x.register_hook(lambda g: g * scales[-1])
    scales.append(5.0)
    return x * scales[0]


@hooked(known="reference to an intermediate kept by a hook")
def reference_to_an_output_kept_by_a_hook(x):
    y = x * 2
    z = y.detach()
    x.register_hook(lambda g: LOG.append((z.sum().item(), y.requires_grad)))
    return y


@hooked(lambda t: (t(grad=True), t()))
def hook_beside_a_write_of_another_tensor(x, y):
    x.register_hook(double)
    y.add_(1)
    return x * y


@hooked(lambda t: (t(grad=True), t(grad=True)), why="torch.autograd.grad runs for real")
def gradient_asked_for_inside(x, y):
    x.register_hook(double)
    (g,) = torch.autograd.grad((x * y).sum(), [y], create_graph=True)
    return (g * x).sum()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        LOG.append("forward")
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        LOG.append("backward")
        return grad * 3 * x * x


@hooked(why="an autograd.Function runs for real")
def function_with_its_own_backward(x):
    y = Cube.apply(x)
    return y * 2


@hooked(why="checkpoint runs for real")
def recomputed_in_backward(x):
    from torch.utils.checkpoint import checkpoint

    def body(t):
        LOG.append("body")
        return t.sin() * 2

    return checkpoint(body, x, use_reentrant=False)


@hooked(lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)), why="backward and the optimizer run for real")
def training_step(module, x):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)  # the Adams ask whether they are compiled
    for _ in range(2):
        optimizer.zero_grad()
        loss = module(x).square().sum()
        loss.backward()
        optimizer.step()
    LOG.append(loss.item())
    return module(x)
