"""One program for each operator that takes functions, and variants of it."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.decorators import leaf_function
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._higher_order_ops.base_hop import BaseHOP
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.wrap import (
    dynamo_bypassing_wrapper,
    wrap,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

Program = tuple[Callable[..., Any], list[Callable[[], Any]]]
CASES: dict[str, Program] = {}


def case(args: list[Callable[[], Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, args)
        return function

    return add


def T(*sizes: int, grad: bool = False, seed: int = 0) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def const(value: Any) -> Callable[[], Any]:
    return lambda: value


outside = torch.arange(3.0)


@case([T(3)])
def cond_operands(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@case([T(3), T(3, seed=1), T(3, seed=2)])
def cond_closure(x: Any, y: Any, z: Any) -> Any:
    w = y + 1

    def yes(a: Any) -> Any:
        return {"r": a * w + outside, "k": (a - z, 3)}

    def no(a: Any) -> Any:
        return {"r": a - w, "k": (a * z * x, 4)}

    return torch.cond(x.sum() > 0, yes, no, (x,))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.register_buffer("s", torch.ones(3))

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, self.a, lambda v: self.b(v) + self.a.bias + self.s, (x,))


@case([const(None), T(2, 3)])
def cond_modules(_: Any, x: Any) -> Any:
    return MOD(x)


MOD = Branches()


@case([T(3)])
def cond_nested(x: Any) -> Any:
    def inner(a: Any) -> Any:
        return torch.cond(a.min() > -9, lambda b: b + x, lambda b: b - 1, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a * 2, (x,))


@case([T(3), const(True)])
def cond_constant_pred(x: Any, p: Any) -> Any:
    return torch.cond(p, lambda a: a.sin(), lambda a: a.cos(), (x,))


@case([T(3)])
def cond_pred_item(x: Any) -> Any:
    return torch.cond(x.shape[0] > 2, lambda a: a.sin(), lambda a: a.cos(), (x,))


@case([T(3), T(3, seed=1)])
def while_loop_tensor(x: Any, c: Any) -> Any:
    n = torch.tensor(0)
    return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 1.5 + c), (n, x))


@case([T(3)])
def while_loop_int(x: Any) -> Any:
    return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v + i), (0, x))


@case([T(4, 3), T(3, seed=1)])
def map_(xs: Any, y: Any) -> Any:
    return hop_map(lambda a, b: (a + b, a * outside), xs, y)


@case([T(3), T(4, 3, seed=1), T(3, seed=2)])
def scan_(init: Any, xs: Any, k: Any) -> Any:
    return scan(lambda c, x: (c + x * k, (c * x).clone()), init, xs)


@case([T(4, 3)])
def associative_scan_(xs: Any) -> Any:
    return associative_scan(lambda a, b: a * b, xs, dim=0, combine_mode="pointwise")


@case([T(4, 3)])
def associative_scan_generic(xs: Any) -> Any:
    return associative_scan(
        lambda a, b: {"i": a["i"] + b["i"], "j": a["j"] * b["j"]}, {"i": xs, "j": xs + 1}, dim=0, combine_mode="generic"
    )


@case([T(3), T(3, seed=1)])
def wrap_(x: Any, y: Any) -> Any:
    return wrap(lambda a, *, b: ({"s": a + b * y}, [a.sin()]), x, b=2.0)


@case([T(3)])
def wrap_set_grad(x: Any) -> Any:
    return wrap_with_set_grad_enabled(False, lambda a: (a * 2,), x)


@case([T(3, 3)])
def wrap_autocast(x: Any) -> Any:
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, lambda a: (a @ a,), x)


@case([T(3), T(3, seed=1)])
def hints(x: Any, y: Any) -> Any:
    return hints_wrapper(lambda a, b: a + b, (x, y), {}, hints={"level": 2})


LIN = nn.Linear(3, 3)


@case([T(2, 3, grad=True), T(2, 3, seed=1)])
def checkpoint_(x: Any, y: Any) -> Any:
    return checkpoint(lambda a: torch.relu(LIN(a) + y), x, use_reentrant=False)


@case([T(2, 3, grad=True)])
def checkpoint_reentrant(x: Any) -> Any:
    return checkpoint(lambda a: torch.relu(a), x, use_reentrant=True)


def policy(ctx: Any, op: Any, *a: Any, **k: Any) -> Any:
    return (
        torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE
        if op == torch.ops.aten.mm.default
        else torch.utils.checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
    )


@case([T(3, 3, grad=True)])
def checkpoint_selective(x: Any) -> Any:
    f = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, policy)
    return checkpoint(lambda a: torch.mm(a, a).sin(), x, use_reentrant=False, context_fn=f)


@case([T(2, 3, grad=True)])
def checkpoint_kwargs(x: Any) -> Any:
    return checkpoint(
        lambda a, *, k: (a * k, "name", a.sin()),
        x,
        k=3,
        use_reentrant=False,
        preserve_rng_state=False,
        determinism_check="none",
    )


@case([T(2, 3, grad=True)])
def checkpoint_dropout(x: Any) -> Any:
    return checkpoint(lambda a: torch.nn.functional.dropout(a, 0.5), x, use_reentrant=False)


@case([T(2, 3, grad=True)])
def checkpoint_side(x: Any) -> Any:
    log = []

    def body(a: Any) -> Any:
        b = a.sin()
        log.append(b)
        return b.cos()

    return (checkpoint(body, x, use_reentrant=False), log[0])


@case([T(2, 3, grad=True)])
def checkpoint_sequential_(x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint_sequential([nn.ReLU(), nn.Sigmoid()], 2, x, use_reentrant=False)


class Sin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, k: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x.sin() * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g * x.cos() * ctx.k, None)


@case([T(3, grad=True)])
def function_plain(x: Any) -> Any:
    return Sin.apply(x, 3) + 1


class Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        v, i = (x * y).sort()
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(i)
        ctx.set_materialize_grads(False)
        return (v, i, x * 2)

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any, h: Any) -> Any:
        (i,) = ctx.saved_tensors
        r = torch.zeros_like(g).scatter(0, i, g) if ctx.needs_input_grad[0] else None
        return (r, None)


@case([T(3, grad=True), T(3, seed=1)])
def function_non_differentiable(x: Any, y: Any) -> Any:
    return Mark.apply(x, y)


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


@case([T(3, grad=True)])
def function_dirty(x: Any) -> Any:
    y = x + 0
    return (Dirty.apply(y), y)


class Setup(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, n: Any) -> Any:
        return (x.exp(), x * n)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> Any:
        x, n = inputs
        ctx.save_for_backward(output[0])
        ctx.n = n

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        (e,) = ctx.saved_tensors
        return (g * e + h * ctx.n, None)


@case([T(3, grad=True)])
def function_setup(x: Any) -> Any:
    return Setup.apply(x, 2)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


@case([T(3, grad=True)])
def function_once(x: Any) -> Any:
    return Once.apply(x)


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return Sin.apply(x, 2) * 3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return Sin.apply(g, 2) * x


@case([T(3, grad=True)])
def function_nested(x: Any) -> Any:
    return Outer.apply(x)


class Holder:
    def __init__(self, t: Any) -> None:
        self.t = t


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, holder: Any, names: Any, y: Any) -> Any:
        ctx.h = holder
        ctx.mid = x.exp()
        return (x * holder.t + LIN.bias, "text", y.sum())

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any, h: Any) -> Any:
        return (g * ctx.h.t * ctx.mid, None, None, h * torch.ones(3))


@case([T(3, grad=True), T(3, seed=1), T(3, seed=2, grad=True)])
def function_objects(x: Any, t: Any, y: Any) -> Any:
    a, s, b = Odd.apply(x, Holder(t), ["n"], y)
    return (a + b, s)


class NoGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@case([T(3)])
def function_no_grad(x: Any) -> Any:
    return NoGrad.apply(x)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return (x, y + 1)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return (g, h)


@case([T(3, grad=True), T(3, grad=True, seed=1)])
def function_returns_input(x: Any, y: Any) -> Any:
    return Same.apply(x, y)


@case([T(4, 3), T(3, seed=1)])
def vmap_(xs: Any, y: Any) -> Any:
    return torch.func.vmap(lambda a: (a * y).sum())(xs)


@case([T(3)])
def grad_(x: Any) -> Any:
    return torch.func.grad(lambda a: (a * outside).sin().sum())(x)


@case([T(3)])
def grad_and_value_(x: Any) -> Any:
    return torch.func.grad_and_value(lambda a, k: ((a * k).sum(), {"aux": a}), has_aux=True)(x, 2)


@case([T(3)])
def vjp_(x: Any) -> Any:
    out, f = torch.func.vjp(torch.sin, x)
    return (out, f(torch.ones(3)))


@case([T(3)])
def jvp_(x: Any) -> Any:
    return torch.func.jvp(torch.sin, (x,), (torch.ones(3),))


@case([T(3)])
def jacrev_(x: Any) -> Any:
    return torch.func.jacrev(torch.sin)(x)


@case([T(3)])
def jacfwd_(x: Any) -> Any:
    return torch.func.jacfwd(torch.sin)(x)


@case([T(3)])
def hessian_(x: Any) -> Any:
    return torch.func.hessian(lambda a: a.sin().sum())(x)


@case([T(3)])
def linearize_(x: Any) -> Any:
    out, f = torch.func.linearize(torch.sin, x)
    return (out, f(torch.ones(3)))


@case([T(2, 3), T(3, 3, seed=1)])
def functional_call_(x: Any, w: Any) -> Any:
    return torch.func.functional_call(LIN, {"weight": w}, (x,))


class VSin(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, i: Any, o: Any) -> Any:
        ctx.save_for_backward(*i)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()


@case([T(4, 3)])
def vmap_of_function(x: Any) -> Any:
    return torch.func.vmap(VSin.apply)(x)


@case([T(3)])
def grad_of_function(x: Any) -> Any:
    return torch.func.grad(lambda a: VSin.apply(a).sum())(x)


@case([T(4, 3)])
def vmap_cond(x: Any) -> Any:
    return torch.func.vmap(lambda a: torch.cond(a.sum() > 0, lambda b: b + 1, lambda b: b - 1, (a,)))(x)


@case([T(1, 2, 16, 8), T(2, seed=1)])
def flex(q: Any, bias: Any) -> Any:
    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + bias[h] * (i - j)

    return flex_attention(q, q, q, score_mod=score)


BM = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device="cpu")


@case([T(1, 2, 128, 8)])
def flex_block_mask(q: Any) -> Any:
    return flex_attention(q, q, q, block_mask=BM)


@case([const(None)])
def flex_make_mask(_: Any) -> Any:
    return create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device="cpu").kv_num_blocks


@torch.compiler.nested_compile_region
def region(a: Any, b: Any) -> Any:
    return torch.relu(a @ b) + 1


@case([T(3, 3), T(3, 3, seed=1)])
def nested_region(x: Any, y: Any) -> Any:
    return region(x, y) + region(y, y)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(3, 3)

    @torch.compiler.nested_compile_region
    def forward(self, x: Any) -> Any:
        return self.l(x).relu()


LAYERS = nn.Sequential(Layer(), Layer())


@case([T(2, 3)])
def nested_region_modules(x: Any) -> Any:
    return LAYERS(x)


@case([T(3), T(3, seed=1)])
def strict_mode_(x: Any, y: Any) -> Any:
    return strict_mode(lambda a, b: a + b * outside, (x, y))


@case([T(2, 3), T(2, 3, seed=1)])
def foreach_map_(x: Any, y: Any) -> Any:
    return foreach_map(lambda a, b: a * b + 1, [x, x], [y, y])


class OwnHOP(BaseHOP):
    def __init__(self) -> None:
        super().__init__("own_hop")

    def __call__(self, f: Any, *a: Any, **k: Any) -> Any:
        return super().__call__(f, *a, **k)


own_hop = OwnHOP()


@case([T(3), T(3, seed=1)])
def base_hop(x: Any, y: Any) -> Any:
    return own_hop(lambda a, b: a + b * y, x, y, k=1)


@case([T(3, 3), T(3, 3, seed=1)])
def invoke_quant(x: Any, y: Any) -> Any:
    from torch._higher_order_ops import InvokeQuant

    return InvokeQuant(codegen_low_precision=True)(lambda a, b: a @ b, x, y, scheme="nf4")


@case([lambda: torch.arange(9, dtype=torch.int8).view(3, 3), lambda: torch.arange(9, dtype=torch.int8).view(3, 3)])
def out_dtype_(x: Any, y: Any) -> Any:
    return out_dtype(torch.ops.aten.mm.default, torch.int32, x, y)


@case([T(3)])
def rng_state(x: Any) -> Any:
    from torch._prims.rng_prims import run_with_rng_state

    return run_with_rng_state(torch.get_rng_state(), torch.ops.aten.rand_like.default, x)


@case([T(3)])
def export_tracepoint(x: Any) -> Any:
    from torch._export.wrappers import _export_tracepoint

    (a,) = _export_tracepoint(x.sin(), kind="module_call_inputs", path="m")
    return a + 1


@case([T(3)])
def print_hop(x: Any) -> Any:
    torch._higher_order_ops.print("value {} {}", x.shape[0], 2) if False else torch.ops.higher_order.print("n {n}", n=3)
    return x + 1


@case([T(3)])
def bypassing(x: Any) -> Any:
    return dynamo_bypassing_wrapper(functools.partial(keep), lambda a: a.sin() + outside, x)


def keep(f: Any) -> Any:
    return f


@case([T(3)])
def inline_asm(x: Any) -> Any:
    from torch._higher_order_ops.inline_asm_elementwise import inline_asm_elementwise

    return inline_asm_elementwise(x, asm_str="mov.b32 $0, $1;", constraints="=f,f", dtype=torch.float32)


@torch.library.custom_op("nested_programs::bump", mutates_args={"x"})
def bump(x: torch.Tensor, k: float) -> None:
    x.add_(k)


@case([T(3)])
def auto_functionalized_(x: Any) -> Any:
    return auto_functionalized(torch.ops.nested_programs.bump.default, x=x, k=2.0)


@case([T(3)])
def auto_functionalized_v2_(x: Any) -> Any:
    return auto_functionalized_v2(torch.ops.nested_programs.bump.default, k=2.0, _x_base_index=0, _all_bases=[x])


@torch._dynamo.nonstrict_trace
def untraced(x: Any, d: Any) -> Any:
    return x * d["k"] + len(d)


@case([T(3), T(3, seed=1)])
def nonstrict_trace_(x: Any, y: Any) -> Any:
    return untraced(x, {"k": y, "j": y})


@torch._dynamo.allow_in_graph
def inside(x: Any, k: Any) -> Any:
    return x.sin() if x.sum() > 0 else x * k


@case([T(3)])
def allow_in_graph_(x: Any) -> Any:
    return inside(x, 3)


@leaf_function
def leaf(x: Any) -> Any:
    return (x.sin() if float(x.sum()) < 1e9 else x,)


@leaf.register_fake
def _(x: Any) -> Any:
    return (torch.empty_like(x),)


@case([T(3)])
def leaf_function_(x: Any) -> Any:
    return leaf(x)


@case([T(3, grad=True)])
def hook_on_intermediate(x: Any) -> Any:
    y = x.sin()
    y.register_hook(lambda g: g * 2)
    return y.sum()
