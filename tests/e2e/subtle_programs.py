"""Programs in which a front end may easily give another result than eager. Each takes a compiler, which is the identity
for eager, and gives values to compare."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd import Function
from torch.compiler import nested_compile_region
from torch.utils.checkpoint import checkpoint

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


def vector() -> torch.Tensor:
    return torch.tensor([0.5, 1.0, 2.0])


ncr = torch.compiler.nested_compile_region


@nested_compile_region
def two(a: Any, b: Any) -> Any:
    return a @ b + 1


@program
def region_same_argument_twice(c: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        return two(x, y) + two(y, y)

    return c(f)(torch.eye(3), torch.ones(3, 3))


CFG = {"k": 2.0}


@nested_compile_region
def scaled(x: Any) -> Any:
    return x * CFG["k"]


@program
def region_reads_written_dict(c: Any) -> Any:
    CFG["k"] = 2.0

    def f(x: Any) -> Any:
        a = scaled(x)
        CFG["k"] = 5.0
        b = scaled(x)
        return (a, b)

    return c(f)(vector())


LST = [2.0]


@nested_compile_region
def scaled_l(x: Any) -> Any:
    return x * LST[0]


@program
def region_reads_written_list(c: Any) -> Any:
    LST[0] = 2.0

    def f(x: Any) -> Any:
        a = scaled_l(x)
        LST[0] = 5.0
        b = scaled_l(x)
        return (a, b)

    return c(f)(vector())


KG = 2.0


@nested_compile_region
def scaled_g(x: Any) -> Any:
    return x * KG


@program
def region_reads_rebound_global(c: Any) -> Any:
    global KG
    KG = 2.0

    def f(x: Any) -> Any:
        global KG
        a = scaled_g(x)
        KG = 5.0
        b = scaled_g(x)
        return (a, b)

    return c(f)(vector())


@nested_compile_region
def mm(a: Any, b: Any) -> Any:
    return a @ b


@program
def region_under_autocast_then_plain(c: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            a = mm(x, y)
        b = mm(x, y)
        return (a.dtype, b.dtype, str(b.dtype))

    return c(f)(torch.eye(3), torch.ones(3, 3))


W = nn.Parameter(torch.ones(3))


@nested_compile_region
def times_w(x: Any) -> Any:
    return x * W


@program
def region_no_grad_then_grad(c: Any) -> Any:
    def f(x: Any) -> Any:
        with torch.no_grad():
            a = times_w(x)
        b = times_w(x)
        return (a, b, b.requires_grad)

    a, b, r = c(f)(vector())
    return (a.requires_grad, b.requires_grad, r)


class Flag:
    def __init__(s, flag: Any) -> None:
        s.flag = flag


@nested_compile_region
def inner(l: Any, x: Any) -> Any:
    return x.sin() if l.flag else x.cos()


@nested_compile_region
def outer(l: Any, x: Any) -> Any:
    return inner(l, x) + 1


FL = [Flag(True), Flag(False)]


@program
def region_in_region(c: Any) -> Any:
    def f(x: Any) -> Any:
        return (outer(FL[0], x), outer(FL[1], x))

    return c(f)(vector())


class H:
    pass


HOLD = H()
HOLD.t = None


@nested_compile_region
def reads_holder(x: Any) -> Any:
    return x + HOLD.t


@program
def region_reads_new_attribute(c: Any) -> Any:
    HOLD.t = torch.zeros(3)

    def f(x: Any) -> Any:
        HOLD.t = x.sin()
        return reads_holder(x)

    return c(f)(vector())


@program
def while_loop_false_with_write(c: Any) -> Any:
    def f(s) -> Any:
        def cond(i: Any) -> Any:
            s.add_(1)
            return False

        return torch._higher_order_ops.while_loop(cond, lambda i: (i + 1,), (torch.zeros((), dtype=torch.int64),))

    s = torch.zeros(())
    with torch.no_grad():
        c(f)(s)
    return s


class ZeroBack(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, i: Any, o: Any) -> Any:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.zeros_like(g)


@program
def func_grad_of_function(c: Any) -> Any:
    return c(lambda x: torch.func.grad(lambda v: ZeroBack.apply(v).sum())(x))(vector())


class ZeroVmap(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, i: Any, o: Any) -> Any:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return (torch.zeros_like(x), 0)


@program
def vmap_of_function_rule(c: Any) -> Any:
    return c(lambda x: torch.func.vmap(lambda v: ZeroVmap.apply(v))(x))(vector())


class ZeroJvp(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, i: Any, o: Any) -> Any:
        pass

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return torch.zeros_like(t)


@program
def jvp_of_function(c: Any) -> Any:
    return c(lambda x: torch.func.jvp(lambda v: ZeroJvp.apply(v), (x,), (torch.ones(3),)))(vector())


class Triple(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3


@program
def dirty_result_dropped(c: Any) -> Any:
    w = torch.ones(3, requires_grad=True)

    def f(w: Any) -> Any:
        y = w * 1
        Triple.apply(y)
        return y.sum()

    c(f)(w).backward()
    return w.grad


class Sin(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()


@program
def double_backward(c: Any) -> Any:
    x = vector().requires_grad_()
    y = c(lambda x: Sin.apply(x))(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (x.sum() + g.sum()).backward()
    return (g.requires_grad, x.grad)


class Maybe(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return (x * 1, x * 2)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return torch.full((3,), 7.0) if h is None else g + h


@program
def grads_not_materialized(c: Any) -> Any:
    x = vector().requires_grad_()
    a, b = c(lambda x: Maybe.apply(x))(x)
    a.sum().backward()
    return x.grad


@program
def apply_with_keyword(c: Any) -> Any:
    return c(lambda x: Sin.apply(x=x))(vector().requires_grad_())


class TooFew(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@program
def backward_gives_too_few(c: Any) -> Any:
    x, y = (vector().requires_grad_(), vector().requires_grad_())
    c(lambda x, y: TooFew.apply(x, y))(x, y).sum().backward()
    return (x.grad, y.grad)


class TooMany(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * 2, None)


@program
def backward_gives_trailing_none(c: Any) -> Any:
    x = vector().requires_grad_()
    c(lambda x: TooMany.apply(x))(x).sum().backward()
    return x.grad


LOG = []


class Logs(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        LOG.append("b")
        return g * 2


@program
def backward_has_effects(c: Any) -> Any:
    LOG.clear()
    x = vector().requires_grad_()
    c(lambda x: Logs.apply(x))(x).sum().backward()
    return (x.grad, list(LOG))


class Prints(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        LOG.append("f")
        ctx.n = len(LOG)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.n


@program
def forward_has_effects(c: Any) -> Any:
    LOG.clear()
    x = vector().requires_grad_()
    f = c(lambda x: Prints.apply(x))
    f(x).sum().backward()
    f(x).sum().backward()
    return (x.grad, list(LOG))


class Twice(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x * 2 + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * 2, g * 5)


@program
def same_tensor_twice(c: Any) -> Any:
    x = vector().requires_grad_()
    c(lambda x: Twice.apply(x, x))(x).sum().backward()
    return x.grad


class Mixed(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return ("s", x * 2)

    @staticmethod
    def backward(ctx: Any, _: Any, g: Any) -> Any:
        return g * 2


@program
def node_arity(c: Any) -> Any:
    x = vector().requires_grad_()
    s, y = c(lambda x: Mixed.apply(x))(x)
    seen = []
    y.grad_fn.register_prehook(lambda gs: seen.append(len(gs)))
    y.sum().backward()
    return (seen, x.grad)


@program
def once_differentiable_message(c: Any) -> Any:
    class O(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = vector().requires_grad_()
    y = c(lambda x: O.apply(x))(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad


@program
def saved_tensor_written(c: Any) -> Any:
    x = vector().requires_grad_()
    y = x * 1

    def f(y: Any) -> Any:
        z = Sin.apply(y)
        y.detach().add_(1)
        return z

    c(f)(y).sum().backward()
    return x.grad


@program
def checkpoint_effect(c: Any) -> Any:
    log = []

    def f(x: Any) -> Any:
        return checkpoint(lambda v: (log.append(1), v.sin())[1], x, use_reentrant=False)

    x = vector().requires_grad_()
    c(f)(x).sum().backward()
    return (x.grad, log)


@program
def checkpoint_under_saved_hooks(c: Any) -> Any:
    n = []

    def pack(t: Any) -> Any:
        n.append("p")
        return t

    x = vector().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = c(lambda x: checkpoint(lambda v: v.sin().sin(), x, use_reentrant=False))(x)
    y.sum().backward()
    return (x.grad, len(n))


@program
def checkpoint_early_stop_error(c: Any) -> Any:
    def body(v: Any) -> Any:
        r = v.sin()
        if bool(torch._C._current_autograd_node() is not None):
            pass
        return r

    x = vector().requires_grad_()
    y = c(lambda x: checkpoint(body, x, use_reentrant=False))(x)
    y.sum().backward()
    return x.grad


@program
def checkpoint_module_buffer(c: Any) -> Any:
    bn = nn.BatchNorm1d(3)
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    c(lambda x: checkpoint(bn, x, use_reentrant=False))(x).sum().backward()
    return (bn.running_mean, bn.num_batches_tracked)


@program
def cond_data_write(c: Any) -> Any:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: (v.data.add_(1), v * 2)[1], lambda v: v * 3, (x,))

    x = vector()
    return (c(f)(x), x)


@program
def cond_write_no_grad(c: Any) -> Any:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v.add_(1) * 2, lambda v: v * 3, (x,))

    x = vector()
    with torch.no_grad():
        r = c(f)(x)
    return (r, x)


@program
def cond_alias(c: Any) -> Any:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v, lambda v: v * 3, (x,))

    x = vector()
    r = c(f)(x)
    return (r, r is x)


@program
def cond_float_output(c: Any) -> Any:
    return c(lambda x: torch.cond(x.sum() > 0, lambda v: (v + 1, 2.5), lambda v: (v - 1, 3.5), (x,)))(vector())


@program
def cond_none_output(c: Any) -> Any:
    return c(lambda x: torch.cond(x.sum() > 0, lambda v: (v + 1, None), lambda v: (v - 1, None), (x,)))(vector())


@program
def cond_effect(c: Any) -> Any:
    log = []

    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: (log.append(1), v + 1)[1], lambda v: v - 1, (x,))

    return (c(f)(vector()), log)


@program
def cond_different_shapes(c: Any) -> Any:
    return c(lambda x: torch.cond(x.sum() > 0, lambda v: v[:2] + 0, lambda v: v * 1, (x,)))(vector())


@program
def cond_constant_branches(c: Any) -> Any:
    return c(lambda x: torch.cond(x.sum() > 0, lambda: torch.ones(2), lambda: torch.zeros(2)))(vector())


@program
def cond_random(c: Any) -> Any:
    torch.manual_seed(0)
    return c(lambda x: torch.cond(x.sum() > 0, lambda v: torch.rand_like(v), lambda v: v, (x,)))(vector())


@program
def hook_effect(c: Any) -> Any:
    log = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: log.append("h"))
        return y.sum()

    x = vector().requires_grad_()
    c(f)(x).backward()
    return (x.grad, log)


@program
def func_grad_effect(c: Any) -> Any:
    log = []

    def f(x: Any) -> Any:
        def loss(v: Any) -> Any:
            log.append(v.shape[0])
            return (v * v).sum()

        return torch.func.grad(loss)(x)

    return (c(f)(vector()), log)


@program
def func_grad_leak(c: Any) -> Any:
    box = []

    def f(x: Any) -> Any:
        def loss(v: Any) -> Any:
            box.append(v)
            return (v * v).sum()

        return (torch.func.grad(loss)(x), box[0] + 1)

    return c(f)(vector())


@program
def vjp_called_later(c: Any) -> Any:
    def f(x: Any) -> Any:
        o, g = torch.func.vjp(torch.sin, x)
        return g

    return c(f)(vector())(torch.ones(3))


@program
def vmap_random_different(c: Any) -> Any:
    torch.manual_seed(0)
    return c(lambda x: torch.func.vmap(lambda v: v + torch.rand(()), randomness="different")(x))(vector())


@program
def scan_effect(c: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    n = []

    def f(i: Any, xs: Any) -> Any:
        return scan(lambda a, b: (n.append(1), (a + b, a * b))[1], i, xs)

    return (c(f)(torch.zeros(3), torch.ones(4, 3)), len(n))


@program
def map_closure_write(c: Any) -> Any:
    from torch._higher_order_ops.map import map

    def f(xs: Any, acc: Any) -> Any:
        def body(v: Any) -> Any:
            acc.add_(v)
            return v * 2

        return map(body, xs)

    acc = torch.zeros(3)
    with torch.no_grad():
        r = c(f)(torch.ones(4, 3), acc)
    return (r, acc)


class UsesW(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * W

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@program
def parameter_in_forward_of_plain_input(c: Any) -> Any:
    y = c(lambda x: UsesW.apply(x))(vector())
    return y.requires_grad


class Asks(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * (1.0 if torch.is_grad_enabled() else 2.0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@program
def grad_mode_in_forward(c: Any) -> Any:
    return c(lambda x: Asks.apply(x))(vector())


@program
def grad_mode_in_forward_with_grad(c: Any) -> Any:
    return c(lambda x: Asks.apply(x))(vector().requires_grad_())


class Needs(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.n = ctx.needs_input_grad
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * 2 if ctx.needs_input_grad[0] else None, g * 3 if ctx.needs_input_grad[1] else None)


@program
def needs_input_grad(c: Any) -> Any:
    x, y = (vector().requires_grad_(), vector())
    c(lambda x, y: Needs.apply(x, y))(x, y).sum().backward()
    return (x.grad, y.grad)


class ListArg(Function):
    @staticmethod
    def forward(ctx: Any, xs: Any) -> Any:
        return xs[0] * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None


@program
def tensor_in_list(c: Any) -> Any:
    x = vector().requires_grad_()
    return c(lambda x: ListArg.apply([x]))(x).requires_grad


class Sneaky(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.t = x * 2
        return ctx.t + 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.t.add_(1)
        return g * ctx.t


@program
def backward_writes_saved(c: Any) -> Any:
    x = vector().requires_grad_()
    y = c(lambda x: Sneaky.apply(x))(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return x.grad


class Wrong(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.ones(7)


@program
def wrong_shape(c: Any) -> Any:
    x = vector().requires_grad_()
    c(lambda x: Wrong.apply(x))(x).sum().backward()
    return x.grad


class Inplace(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(1)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


@program
def writes_without_mark_dirty(c: Any) -> Any:
    x = vector().requires_grad_()
    z = x * 1

    def f(z: Any) -> Any:
        w = Inplace.apply(z)
        return (w, z)

    w, z2 = c(f)(z)
    (w.sum() + z2.sum()).backward()
    return (x.grad, z2)


class Save(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y


@program
def saved_output_then_written(c: Any) -> Any:
    x = vector().requires_grad_()

    def f(x: Any) -> Any:
        y = Save.apply(x)
        y.mul_(2)
        return y

    c(f)(x).sum().backward()
    return x.grad


class Meta(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Sub(Meta):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return super(Sub, Sub).backward(ctx, g) * 3


@program
def super_backward(c: Any) -> Any:
    x = vector().requires_grad_()
    c(lambda x: Sub.apply(x))(x).sum().backward()
    return x.grad


@program
def grad_fn_name(c: Any) -> Any:
    x = vector().requires_grad_()
    return type(c(lambda x: Meta.apply(x))(x).grad_fn).__name__


@program
def function_name_inside(c: Any) -> Any:
    def f(x: Any) -> Any:
        y = Meta.apply(x)
        return (y, y.grad_fn is not None, y.is_leaf)

    x = vector().requires_grad_()
    r = c(f)(x)
    return r[1:]


@program
def view_output(c: Any) -> Any:
    class V(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view(1, 3)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.view(3) * 5

    x = vector().requires_grad_()

    def f(x: Any) -> Any:
        z = x * 1
        v = V.apply(z)
        return (v, v._is_view())

    v, k = c(f)(x)
    v.sum().backward()
    return (x.grad, k)


@program
def unused_result(c: Any) -> Any:
    log = []

    class L(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return (x * 2, x * 3)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * 10 + h

    x = vector().requires_grad_()
    y = c(lambda x: L.apply(x)[0])(x)
    y.sum().backward()
    return x.grad


@program
def backward_twice(c: Any) -> Any:
    x = vector().requires_grad_()
    y = c(lambda x: Sin.apply(x))(x)
    y.sum().backward()
    y.sum().backward()
    return x.grad


@program
def saved_tensor_hooks_see_it(c: Any) -> Any:
    x = vector().requires_grad_()
    n = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (n.append(1), t)[1], lambda t: t):
        y = c(lambda x: Sin.apply(x))(x)
    return len(n)


@program
def memory_kept_after_backward(c: Any) -> Any:

    class Keep(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            e = x.exp()
            ctx.save_for_backward(e)
            return e * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    x = vector().requires_grad_()
    y = c(lambda x: Keep.apply(x))(x)
    y.sum().backward()
    try:
        y.grad_fn.saved_tensors
        return "readable"
    except RuntimeError as e:
        return "freed"


@program
def cond_gradient(c: Any) -> Any:
    x = vector().requires_grad_()
    c(lambda x: torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v * 3, (x,)))(x).sum().backward()
    return x.grad


@program
def while_false_python(c: Any) -> Any:
    def f(s) -> Any:
        def cond(i: Any) -> Any:
            s.add_(1)
            return False

        return torch._higher_order_ops.while_loop(cond, lambda i: (i + 1,), (torch.zeros((), dtype=torch.int64),))

    return "see text"
