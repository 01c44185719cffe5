"""Hooks of nn.Module: each kind, on modules and for all of them, registered before, inside and removed."""

import collections

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils.hooks import RemovableHandle

from programs import program

LOG: list[object] = []
GLOBAL_DICTS = (
    nn_module._global_forward_hooks,
    nn_module._global_forward_pre_hooks,
    nn_module._global_forward_hooks_always_called,
    nn_module._global_forward_hooks_with_kwargs,
    nn_module._global_backward_hooks,
    nn_module._global_backward_pre_hooks,
    nn_module._global_module_registration_hooks,
    nn_module._global_parameter_registration_hooks,
    nn_module._global_buffer_registration_hooks,
)


def start():
    """No hooks but those the program makes; their numbers are the same in each run."""
    LOG.clear()
    for hooks in GLOBAL_DICTS:
        hooks.clear()
    nn_module._global_is_full_backward_hook = None
    RemovableHandle.next_id = 0


def state():
    return list(LOG), [dict(hooks) for hooks in GLOBAL_DICTS], nn_module._global_is_full_backward_hook


def hooked(args, **options):
    return program("module_hooks", args, setup=start, state=state, **options)


def net(t):
    return t.module(lambda: nn.Sequential(nn.Linear(t.n, t.n), nn.ReLU(), nn.Linear(t.n, 2)))


def log_shapes(module, args, output):
    LOG.append((type(module).__name__, [tuple(a.shape) for a in args], tuple(output.shape)))


def double_output(module, args, output):
    return output * 2


def add_one(module, args):
    return args[0] + 1


def pair_input(module, args):
    return (args[0].cos(),)


def keep_output(module, args, output):
    module.kept = output


def with_forward_hooks(t):
    m = net(t)
    m.register_forward_hook(log_shapes)
    m.register_forward_hook(double_output)
    m[0].register_forward_hook(keep_output)
    m[2].register_forward_hook(double_output, prepend=True)
    return m


@hooked(lambda t: (with_forward_hooks(t), t(3, t.n)))
def forward_hooks(m, x):
    return m(x), m[0].kept


def with_pre_hooks(t):
    m = net(t)
    m.register_forward_pre_hook(add_one)
    m.register_forward_pre_hook(pair_input, prepend=True)
    m[2].register_forward_pre_hook(add_one)
    return m


@hooked(lambda t: (with_pre_hooks(t), t(3, t.n)), backward=True)
def forward_pre_hooks(m, x):
    return m(x)


class Keywords(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, 2)

    def forward(self, x, scale=1.0, shift=None):
        y = self.layer(x) * scale
        return y if shift is None else y + shift


def shift_by_keyword(module, args, kwargs):
    LOG.append(sorted(kwargs))
    return args, {**kwargs, "shift": args[0].sum()}


def scale_result(module, args, kwargs, output):
    LOG.append(list(kwargs))
    return output * kwargs.get("scale", 3.0)


def with_keyword_hooks(t):
    m = t.module(lambda: Keywords(t.n))
    m.register_forward_pre_hook(shift_by_keyword, with_kwargs=True)
    m.register_forward_hook(scale_result, with_kwargs=True)
    m.register_forward_hook(double_output)
    return m


@hooked(lambda t: (with_keyword_hooks(t), t(3, t.n)))
def hooks_with_keywords(m, x):
    return m(x, scale=2.0), m(x)


def with_bad_hook(t):
    m = t.module(lambda: Keywords(t.n))
    m.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    return m


@hooked(lambda t: (with_bad_hook(t), t(3, t.n)), one_graph=False)
def keyword_hook_that_returns_no_pair(m, x):
    try:
        return m(x)
    except RuntimeError:
        return x + 1


class Failing(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, 2)

    def forward(self, x, fail=False):
        y = self.layer(x)
        if fail:
            raise ValueError("forward failed")
        return y


def note_result(module, args, output):
    LOG.append(None if output is None else tuple(output.shape))


def with_always_called(t):
    m = t.module(lambda: Failing(t.n))
    m.register_forward_hook(note_result, always_call=True)
    m.register_forward_hook(double_output)
    return m


@hooked(lambda t: (with_always_called(t), t(3, t.n)))
def always_called_hook(m, x):
    return m(x)


@hooked(lambda t: (with_always_called(t), t(3, t.n)))
def always_called_hook_when_forward_raises(m, x):
    y = m(x)
    try:
        m(x, fail=True)
    except ValueError as error:
        return y, str(error)


@hooked(lambda t: (with_always_called(t), t(3, t.n)), one_graph=False, hits=False)
def forward_raises_out_of_the_program(m, x):
    m(x)
    return m(x, fail=True)


@hooked(lambda t: (net(t), t(3, t.n)))
def hooks_registered_inside(m, x):
    handle = m.register_forward_hook(double_output)
    y = m(x)
    handle.remove()
    with m[0].register_forward_pre_hook(add_one):
        z = m(x)
    m[2].register_forward_hook(lambda module, args, output: output - x.sum())
    return y, z, m(x), len(m._forward_hooks), len(m[2]._forward_hooks)


def with_removed(t):
    m = net(t)
    kept = m.register_forward_hook(double_output)
    removed = m.register_forward_hook(log_shapes)
    removed.remove()
    return m, kept


@hooked(lambda t: (*with_removed(t), t(3, t.n)))
def hook_removed_inside(m, handle, x):
    y = m(x)
    handle.remove()
    return y, m(x)


class Recorder:
    """Hooks with state: a bound method and a callable object."""

    def __init__(self):
        self.outputs = collections.OrderedDict()

    def hook(self, module, args, output):
        self.outputs[len(self.outputs)] = output

    def __call__(self, module, args):
        self.outputs[str(len(self.outputs))] = args[0]


def with_stateful(t):
    m, recorder = net(t), Recorder()
    for layer in m:
        layer.register_forward_hook(recorder.hook)
    m.register_forward_pre_hook(recorder)
    return m, recorder


@hooked(lambda t: (*with_stateful(t), t(3, t.n)))
def hooks_with_state(m, recorder, x):
    return m(x) + sum(o.sum() for o in recorder.outputs.values())


def with_closure(t):
    m, seen = net(t), []

    def hook(module, args, output):
        seen.append(output)
        return output + len(seen)

    for layer in m:
        layer.register_forward_hook(hook)
    return m, seen


@hooked(lambda t: (*with_closure(t), t(3, t.n)))
def hooks_that_close_over_a_list(m, seen, x):
    return m(x), len(seen)


# Backward hooks.


def note_gradients(module, grad_input, grad_output):
    LOG.append((type(module).__name__, [None if g is None else tuple(g.shape) for g in grad_input]))


def double_gradients(module, grad_input, grad_output):
    return tuple(None if g is None else g * 2 for g in grad_input)


def halve_gradients(module, grad_output):
    return tuple(g / 2 for g in grad_output)


def with_backward_hooks(t):
    m = net(t)
    m[0].register_full_backward_hook(note_gradients)
    m[2].register_full_backward_hook(double_gradients)
    m.register_full_backward_hook(note_gradients, prepend=True)
    return m


@hooked(lambda t: (with_backward_hooks(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def full_backward_hooks(m, x):
    return m(x * 2)


def with_backward_pre_hooks(t):
    m = net(t)
    m.register_full_backward_pre_hook(halve_gradients)
    m[0].register_full_backward_pre_hook(halve_gradients)
    return m


@hooked(lambda t: (with_backward_pre_hooks(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def full_backward_pre_hooks(m, x):
    return m(x * 2)


def with_old_backward_hooks(t):
    m = net(t)
    m[0].register_backward_hook(note_gradients)
    return m


@hooked(lambda t: (with_old_backward_hooks(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def non_full_backward_hooks(m, x):
    return m(x * 2)


@hooked(lambda t: (net(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def backward_hooks_registered_inside(m, x):
    m.register_full_backward_hook(note_gradients)
    return m(x * 2)


# Hooks for all modules.


def global_hooks(t):
    nn_module.register_module_forward_hook(log_shapes)
    nn_module.register_module_forward_pre_hook(add_one)
    return net(t)


@hooked(lambda t: (global_hooks(t), t(3, t.n)))
def global_forward_hooks(m, x):
    return m(x)


def always_called_for_all(t):
    nn_module.register_module_forward_hook(note_result, always_call=True)
    nn_module.register_module_forward_hook(scale_result, with_kwargs=True)
    return net(t)


@hooked(lambda t: (always_called_for_all(t), t(3, t.n)))
def global_forward_hooks_of_each_kind(m, x):
    return m(x)


def global_backward_hook(t):
    nn_module.register_module_full_backward_hook(note_gradients)
    return net(t)


@hooked(lambda t: (global_backward_hook(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def global_full_backward_hook(m, x):
    return m(x * 2)


def global_backward_pre_hook(t):
    nn_module.register_module_full_backward_pre_hook(halve_gradients)
    return net(t)


@hooked(lambda t: (global_backward_pre_hook(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def global_full_backward_pre_hook(m, x):
    return m(x * 2)


def global_old_backward_hook(t):
    nn_module.register_module_backward_hook(note_gradients)
    return net(t)


@hooked(lambda t: (global_old_backward_hook(t), t(3, t.n, grad=True)), backward=True, one_graph=False)
def global_backward_hook_of_the_old_kind(m, x):
    return m(x * 2)


@hooked(lambda t: (net(t), t(3, t.n)))
def global_hook_registered_inside(m, x):
    with nn_module.register_module_forward_hook(double_output):
        y = m(x)
    return y, m(x)


def count_registration(module, name, value):
    LOG.append(name)


def registration_hooks(t):
    m = net(t)
    nn_module.register_module_module_registration_hook(count_registration)
    nn_module.register_module_buffer_registration_hook(count_registration)
    return m


@hooked(lambda t: (registration_hooks(t), t(3, t.n)))
def global_registration_hooks(m, x):
    m.register_buffer("more", x * 2)
    m.append(nn.Tanh())
    return m(x)


# Hooks of state_dict.


def rename(module, state, prefix, metadata):
    state[prefix + "renamed"] = state.pop(prefix + "0.weight")


def with_state_hooks(t):
    m = net(t)
    m.register_state_dict_post_hook(rename)
    m.register_state_dict_pre_hook(lambda module, prefix, keep: LOG.append(prefix))
    return m


@hooked(lambda t: (with_state_hooks(t), t(3, t.n)))
def state_dict_hooks(m, x):
    state = m.state_dict()
    return x @ state["renamed"], list(state)


class Hooked(nn.Module):
    """Registers hooks on itself in its own forward."""

    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.ready = False

    def forward(self, x):
        if not self.ready:
            self.layer.register_forward_hook(self.scale)
            self.ready = True
        return self.layer(x)

    def scale(self, module, args, output):
        return output * 3


@hooked(lambda t: (t.module(lambda: Hooked(t.n)), t(3, t.n)))
def hooks_of_its_own(m, x):
    return m(x), m(x * 2)


@hooked(lambda t: (t.module(lambda: Hooked(t.n)), t(3, t.n)))
def hook_raises(m, x):
    def refuse(module, args):
        raise ValueError("no")

    m.layer.register_forward_pre_hook(refuse)
    try:
        m(x)
    except ValueError as error:
        return x + torch.ones(1), str(error)
