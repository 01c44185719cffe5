"""Side effects on tensors: attributes, gradients, storage, aliases and what an operation that writes leaves behind."""

import torch
import torch.nn.functional as F
from torch import nn

from programs import program

CATEGORY = "fx_tensors"

# ---- attributes


@program(CATEGORY, lambda t: (t(), t()))
def attribute_moved_between_tensors(x, y):
    x.owner = y
    y.owner = x
    x.owner.seen = [x]
    return x.owner.seen[0] is x, y.owner.owner is y


@program(CATEGORY)
def attribute_set_read_deleted(x):
    x.count = 1
    x.count += 2
    x.note = x.count
    del x.count
    return hasattr(x, "count"), x.note, x + 1


@program(CATEGORY, lambda t: (t(),), why="the dict of a tensor is not modelled")
def attribute_by_way_of_the_dict(x):
    names = x.__dict__
    names["count"] = 1
    del x.count
    x.note = names
    return "count" in names, names["note"] is names, x + 1


@program(CATEGORY)
def attribute_on_an_intermediate(x):
    y = x * 2
    y.parts = {"x": x}
    z = y.view(-1)
    return y, z, hasattr(z, "parts"), y.parts["x"] is x


def _tagged(t):
    x = t()
    x.tag = [1]
    return x, t()


@program(CATEGORY, _tagged)
def attribute_that_was_there(x, y):
    x.tag.append(y)
    old, x.tag = x.tag, "new"
    y.tag = old
    return len(y.tag), x * 2


@program(CATEGORY, _tagged)
def attribute_deleted_twice(x, y):
    del x.tag
    try:
        del x.tag
    except AttributeError as error:
        y.error = str(error)
    return y


@program(CATEGORY, lambda t: ({"a": t(), "b": t()},))
def attributes_on_tensors_of_a_dict(table):
    for i, (name, value) in enumerate(table.items()):
        value.position = i
        setattr(value, "name_" + name, name)
    return sum(v.position for v in table.values()), table["a"].name_a


@program(CATEGORY, lambda t: (nn.Parameter(t()), t()))
def attribute_on_a_parameter(p, x):
    p.main_grad = x * 2
    p.main_grad.add_(1)
    return p * x, p.main_grad is x


# ---- .grad


def _with_grad(t, shape=()):
    x = t(*shape, grad=True)
    x.grad = t(*shape)
    return x


@program(CATEGORY, lambda t: (_with_grad(t),))
def grad_cleared(x):
    before = x.grad
    x.grad = None
    return before * 2, x.grad is None


@program(CATEGORY, lambda t: (t(grad=True), t()))
def grad_assigned(x, g):
    y = x.detach() * 2
    x.grad = g
    x.grad = x.grad + y
    return x.grad is g, x.grad.sum()


@program(CATEGORY, lambda t: ([_with_grad(t), _with_grad(t)],))
def grads_zeroed_in_place(params):
    for p in params:
        p.grad.zero_()
    params[0].grad.add_(1)
    return params[0].grad + params[1].grad


@program(CATEGORY, lambda t: ([_with_grad(t), _with_grad(t)],))
def grads_swapped(params):
    a, b = params
    a.grad, b.grad = b.grad, a.grad
    return a.grad - b.grad


@program(CATEGORY, lambda t: ([_with_grad(t), _with_grad(t), t(grad=True)],))
def grads_clipped(params):
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    scale = 0.5 / (norm + 1e-6)
    for g in grads:
        g.mul_(scale.clamp(max=1.0))
    return norm, len(grads)


@program(CATEGORY, lambda t: (_with_grad(t), _with_grad(t)))
def grad_shared_by_two(x, y):
    y.grad = x.grad
    x.grad.mul_(2)
    return y.grad is x.grad, y.grad + 1


@program(CATEGORY, lambda t: (t(grad=True), t()))
def grad_set_on_what_has_none(x, g):
    had = x.grad is None
    x.grad = g.clone()
    return had, x * 2


@program(CATEGORY, lambda t: (_with_grad(t), 0.1))
def sgd_by_hand(p, rate):
    with torch.no_grad():
        p -= rate * p.grad
    p.grad = None
    return p * 2


@program(CATEGORY, lambda t: (_with_grad(t), t(), 0.9))
def momentum_by_hand(p, buffer, momentum):
    with torch.no_grad():
        buffer.mul_(momentum).add_(p.grad)
        p.add_(buffer, alpha=-0.1)
        p.grad.zero_()
    return (p * buffer).sum()


# ---- requires_grad and is_leaf


@program(CATEGORY)
def flag_turned_on_at_the_end(x):
    y = x * 2
    x.requires_grad_()
    return y, x.requires_grad, x.is_leaf, y.requires_grad


@program(CATEGORY, lambda t: (t(grad=True), t()))
def flag_turned_off_at_the_end(x, y):
    z = x * y
    x.requires_grad_(False)
    return z, x.requires_grad


@program(CATEGORY, lambda t: (t(grad=True), t(grad=True)), backward=True)
def flags_by_assignment(x, y):
    z = x * y
    y.requires_grad = False
    return z, y.requires_grad


@program(CATEGORY)
def new_tensor_becomes_a_leaf(x):
    w = torch.zeros(3)
    w.requires_grad_()
    v = x.clone().requires_grad_(True)
    return w, v, w.is_leaf, v.requires_grad


@program(CATEGORY, lambda t: (t(grad=True),), backward=True)
def flag_already_as_asked(x):
    y = x.requires_grad_() * 2
    z = x.detach().requires_grad_(False)
    return y, z, x.requires_grad_(True) is x


@program(CATEGORY, lambda t: ([t(grad=True), t(grad=True), t()],))
def all_parameters_frozen(params):
    loss = sum((p * 2).sum() for p in params)
    for p in params:
        p.requires_grad_(False)
    return loss, [p.requires_grad for p in params]


@program(
    CATEGORY, lambda t: (t(grad=True), t()), backward=True, known="requires_grad of a view after its base was written"
)
def view_requires_grad_after_its_base_was_written(x, y):
    base = y.clone()
    view = base[1:]
    before = view.requires_grad
    base.mul_(x)
    return view, before, view.requires_grad, base.requires_grad


@program(
    CATEGORY,
    lambda t: (t(grad=True), t(t.n, 2)),
    backward=True,
    known="requires_grad of a view after its base was written",
)
def view_of_view_requires_grad_after_write(x, y):
    base = y.clone()
    view = base.t()
    deeper = view[0]
    base[:, 1] = x
    return deeper * 2, view.requires_grad, deeper.requires_grad, deeper.is_leaf


@program(
    CATEGORY, lambda t: (t(grad=True), t()), backward=True, known="requires_grad of a view after its base was written"
)
def base_requires_grad_after_its_view_was_written(x, y):
    base = y.clone()
    view = base.view(-1, 1)
    view.copy_(x.view(-1, 1) * 2)
    return base, base.requires_grad, view.requires_grad, (base * view[:, 0]).sum()


@program(
    CATEGORY,
    lambda t: (t(grad=True), torch.zeros(t.n)),
    backward=True,
    known="requires_grad of a view after its base was written",
)
def argument_view_gains_grad(x, buffer):
    half = buffer[:2]
    rest = buffer[2:]
    half.add_(x[:2])
    return rest.requires_grad, half.requires_grad, buffer.requires_grad, (rest + x[2:]).sum()


@program(CATEGORY, lambda t: (t(grad=True),), backward=True)
def detached_and_written(x):
    y = x.detach().clone()
    y.mul_(3)
    return y, x * y, y.is_leaf


# ---- .data, set_, copy_, resize_


@program(CATEGORY, lambda t: (t(grad=True), t()))
def data_written(x, y):
    x.data.add_(y)
    x.data[0] = 5
    return x * 2


@program(CATEGORY, lambda t: (nn.Parameter(t()), t()))
def data_replaced(p, new):
    old = p.data
    p.data = new * 2
    return old, p.requires_grad, p.is_leaf


@program(CATEGORY, lambda t: ([nn.Parameter(t()) for _ in range(3)], 0.5))
def data_of_parameters_replaced(params, rate):
    total = sum(p.sum() for p in params)
    for p in params:
        p.data = p.data * rate
    return total


@program(CATEGORY, lambda t: (t(), t()))
def data_becomes_an_alias(x, y):
    x.data = y
    y.add_(1)
    return y * 2


@program(CATEGORY, lambda t: (t(grad=True),), backward=True)
def data_of_an_intermediate(x):
    y = x * 2
    y.data.clamp_(min=0)
    return y * y


@program(CATEGORY, lambda t: (t(t.n, 3), t(3)))
def copied_with_broadcast(x, row):
    x.copy_(row)
    x[1:].copy_(row * 2)
    return x.sum(0)


@program(CATEGORY, lambda t: (t(), t(dtype=torch.float64)))
def copied_across_dtypes(x, y):
    x.copy_(y)
    y.copy_(x + 1)
    return x, y.dtype


@program(CATEGORY, lambda t: (t(), t()), why="two storages are exchanged")
def storages_swapped(x, y):
    a = x + y
    torch.utils.swap_tensors(x, y)
    return a, x - y


@program(CATEGORY, lambda t: (t(), torch.zeros(2)), why="resize_ changes the storage under other tensors")
def resized_and_set(x, y):
    y.resize_(4)
    y.zero_()
    z = torch.empty(0)
    z.set_(x.untyped_storage(), 1, (2,), (1,))
    z.add_(1)
    return x, y, z


@program(CATEGORY, lambda t: (t(), t()))
def set_to_a_new_tensor(x, y):
    z = torch.empty(0)
    z.set_(y.clone())
    z.add_(x)
    return z * 2


# ---- views and aliases


@program(CATEGORY, lambda t: (t(t.n, 4),))
def views_written_in_turn(x):
    rows, cols = x[0], x[:, 1]
    rows.fill_(1)
    cols.mul_(2)
    x.t()[3].add_(1)
    return x, rows, cols


@program(CATEGORY, lambda t: (lambda x: (x, x[1:], x[:-1]))(t(6)), misses=False)
def overlapping_views_as_arguments(x, tail, head):
    tail.add_(1)
    head.mul_(2)
    x[0] = 9
    return tail + head


@program(CATEGORY, lambda t: (lambda x: ([x, x], {"k": x.view(-1)}))(t()))
def one_tensor_in_many_places(row, table):
    row[0].add_(1)
    table["k"].mul_(3)
    return row[0] is row[1], row[1] - table["k"]


@program(CATEGORY, lambda t: (t(1, 3).expand(t.n, 3),))
def expanded_is_read(x):
    y = x.clone()
    y[0] += 1
    return y, x.stride(), x.contiguous() * 2


@program(CATEGORY, lambda t: (t(1, 3).expand(t.n, 3), []))
def expanded_is_written(x, log):
    try:
        x.add_(1)
    except RuntimeError as error:
        log.append(str(error)[:20])
    return x * 2


@program(CATEGORY, lambda t: (t(2, t.n),))
def unbound_rows_written(x):
    a, b = x.unbind(0)
    a.add_(b)
    b.zero_()
    return a, b


@program(CATEGORY, lambda t: (t(6, t.n),))
def splits_of_a_clone_written(x):
    y = x.clone()
    for i, part in enumerate(y.split(2)):
        part.add_(i)
    first, *_ = y.chunk(3)
    first.neg_()
    return y


@program(CATEGORY, lambda t: (t(), []))
def views_kept_by_the_program(x, kept):
    kept.append(x[:2])
    x.add_(1)
    kept.append(x.view(2, -1))
    kept[0].zero_()
    return kept[1].sum(0)


@program(CATEGORY, lambda t: (t(3, t.n),))
def transposed_in_place_views(x):
    y = x.t().contiguous()
    z = x.t()
    z[0].fill_(7)
    y[1].fill_(8)
    return y, z, z.is_contiguous(), y.stride()


@program(CATEGORY, lambda t: (t(3, t.n),))
def metadata_written_in_place(x):
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    z = y.transpose_(0, 1)
    return z is y, y, x


GLOBALS: list = []
TABLE: dict = {}


def _globals():
    GLOBALS.clear()
    TABLE.clear()
    generator = torch.Generator().manual_seed(7)
    GLOBALS.extend(torch.randn(4, generator=generator) for _ in range(3))
    TABLE["first"] = GLOBALS[0]


@program(
    CATEGORY,
    lambda t: (GLOBALS[1],),
    setup=_globals,
    state=lambda: (GLOBALS, TABLE),
    misses=False,
    known="an argument that aliases an element of a global list",
)
def argument_aliases_a_global_element(x):
    GLOBALS[1].add_(1)
    x.mul_(2)
    return x is GLOBALS[1], GLOBALS[1] - 1


@program(
    CATEGORY,
    lambda t: (GLOBALS[0][1:],),
    setup=_globals,
    state=lambda: (GLOBALS, TABLE),
    misses=False,
    known="an argument that aliases an element of a global list",
)
def argument_views_a_global_element(x):
    x.add_(10)
    total = GLOBALS[0].sum()
    TABLE["first"].zero_()
    return total, x + 1


@program(
    CATEGORY,
    lambda t: (TABLE["first"], GLOBALS),
    setup=_globals,
    state=lambda: (GLOBALS, TABLE),
    misses=False,
    known="an argument that aliases an element of a global list",
)
def argument_replaced_in_the_global(x, row):
    row[0] = x + 1
    row.append(x)
    x.mul_(0)
    return GLOBALS[0] is x, GLOBALS[3] is x, TABLE["first"] is x, row[0] * 1


# ---- out=


@program(CATEGORY, lambda t: (t(), t(), torch.zeros(t.n)))
def out_fits(x, y, out):
    r = torch.add(x, y, out=out)
    torch.sin(out, out=out)
    return r is out, out * 2


@program(CATEGORY, lambda t: (t(), torch.zeros(2, t.n)))
def out_is_a_view(x, table):
    torch.mul(x, 2, out=table[1])
    torch.neg(table[1], out=table[0])
    return table


@program(CATEGORY, lambda t: (t(), torch.zeros(t.n)))
def out_aliases_the_input(x, y):
    torch.add(x, 1, out=x)
    torch.clamp(x, 0, out=x)
    torch.mul(x, x, out=y)
    return x, y


@program(CATEGORY, lambda t: (t(t.n, 3),))
def out_of_two_results(x):
    values = torch.zeros(3)
    indices = torch.zeros(3, dtype=torch.int64)
    r = torch.max(x, 0, out=(values, indices))
    return r.values is values, values, indices


@program(CATEGORY, lambda t: (t(), torch.empty(0), []), why="an output that does not fit is resized")
def out_is_resized(x, out, log):
    torch.mul(x, 3, out=out)
    log.append(out.shape)
    return out + 1


@program(CATEGORY, lambda t: (t(), torch.zeros(t.n, dtype=torch.float64)))
def out_of_another_dtype(x, out):
    torch.add(x, 1, out=out)
    return out.dtype, out / 2


# ---- operations that return their own input


@program(CATEGORY, known="dropout and other ops that return their own input")
def dropout_that_drops_nothing(x):
    y = F.dropout(x, 0.5, training=False)
    y.add_(1)
    return y is x, x


@program(
    CATEGORY,
    lambda t: (nn.Dropout(0.5).eval(), nn.Identity(), t()),
    known="dropout and other ops that return their own input",
)
def modules_that_return_their_input(dropout, identity, x):
    y = identity(dropout(x))
    y[0] = 3
    y.tag = "same"
    return y is x, x.tag, x * 2


@program(CATEGORY, known="dropout and other ops that return their own input")
def to_contiguous_and_friends(x):
    y = x.to(torch.float32)
    z = y.contiguous().float().cpu()
    w = x.expand_as(x).reshape(x.shape)
    z.mul_(2)
    return y is x, z is x, w is x, w, x.to("cpu", torch.float32) is x, x.type(torch.float32) is x


@program(CATEGORY, lambda t: (t(t.n, 2),), known="dropout and other ops that return their own input")
def results_that_may_alias(x):
    a, b, c = x.reshape(-1), x.flatten(), x.t().reshape(-1)
    x.add_(1)
    return a, b, c, x.squeeze(0), x.type_as(x) is x, x.positive(), x.resolve_conj() is x


@program(CATEGORY, lambda t: (t(grad=True),), backward=True, known="dropout and other ops that return their own input")
def own_input_and_gradient(x):
    y = F.dropout(x * 2, 0.0, training=True)
    z = F.dropout(x, 0.3, training=False)
    return y, z is x, (z * y).sum()


@program(CATEGORY, known="dropout and other ops that return their own input")
def own_input_after_write(x):
    y = x.clone()
    z = y.contiguous()
    y.add_(1)
    w = F.dropout(z, training=False)
    w.mul_(2)
    return y is z, z is w, y


# ---- control by identity, exceptions and order


@program(CATEGORY, lambda t: (lambda x: (x, x))(t()), known="identity-based control flow")
def identity_decides(x, y):
    if x is y:
        x.add_(1)
        return y * 2
    return x + y


@program(CATEGORY, lambda t: (t(), t(), t()), known="identity-based control flow")
def identity_of_results_decides(x, y, z):
    best = x
    for candidate in (y, z, x):
        if candidate is not best:
            best = candidate
    best.mul_(2)
    return best is x, x + y


@program(CATEGORY, lambda t: (t(), []), known="an operation that fails inside try after an effect")
def failing_shape_caught_after_an_effect(x, log):
    try:
        log.append("before")
        x.note = 1
        {}["missing"]
    except KeyError as error:
        log.append(str(error))
    return x + len(log)


@program(
    CATEGORY,
    lambda t: (t(), t(t.n + 1), []),
    known="an operation that fails inside try after an effect",
)
def operation_fails_in_try_after_an_effect(x, y, log):
    try:
        x.add_(1)
        log.append("written")
        z = x + y
        log.append(z)
    except RuntimeError:
        log.append("failed")
        x.mul_(2)
    return x


@program(CATEGORY, lambda t: (t(), t(), []))
def writes_and_reads_in_order(x, y, log):
    log.append(x.sum())
    x.copy_(y)
    log.append(x.sum())
    y.zero_()
    log.append(x.sum())
    x.tag = log
    return x.tag[0] - log[2]


class Cache:
    def __init__(self, t):
        self.keys = torch.zeros(8, 3)
        self.length = 0
        self.peak = t(3)


@program(CATEGORY, lambda t: (t(2, 3), Cache(t)), misses=False)
def rows_written_to_a_cache(x, cache):
    end = cache.length + x.shape[0]
    cache.keys[cache.length : end] = x
    cache.length = end
    torch.maximum(cache.peak, x.amax(0), out=cache.peak)
    return cache.keys[:end].sum(0)


@program(CATEGORY, lambda t: (t(t.n, 3), t.ints(t.n, below=3), torch.zeros(3)))
def index_writes(x, index, counts):
    counts.index_add_(0, index, torch.ones(index.shape[0]))
    x.masked_fill_(x < 0, 0)
    x[0] = counts
    x[:, 1] += 2
    return x, counts


@program(CATEGORY, lambda t: (t(), t.bools()))
def masked_writes(x, mask):
    x.masked_fill_(mask, 3)
    x += (~mask).float()
    x.clamp_(max=2)
    return x, mask.logical_not_()


@program(CATEGORY, lambda t: (t(), t(), t()))
def augmented_on_items_and_attributes(x, y, z):
    row = [x, y]
    row[0] += z
    x.buffer = z
    x.buffer *= 2
    row[1] = row[1] + x.buffer
    return row[0] is x, x.buffer is z, row[1] is y, row[1]


# ---- parameters and modules


@program(CATEGORY, lambda t: (t(),))
def parameter_made_inside(x):
    p = nn.Parameter(x * 2)
    q = nn.Parameter(torch.zeros(2), requires_grad=False)
    return p, q, p.requires_grad, p.is_leaf, isinstance(p, nn.Parameter)


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def parameters_initialised_in_place(module, x):
    nn.init.constant_(module.weight, 0.5)
    nn.init.zeros_(module.bias)
    return module(x)


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(2, 3)), misses=False)
def weights_loaded_in_place(module, new):
    with torch.no_grad():
        module.weight.copy_(new)
        module.bias.zero_()
    return module.weight.sum(), module.weight.requires_grad


@program(CATEGORY, lambda t: (nn.BatchNorm1d(3), t(t.n, 3)), backward=True)
def running_statistics_of_a_module(norm, x):
    y = norm(x)
    norm.momentum = 0.5
    return norm(y), norm.num_batches_tracked


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)), backward=True)
def module_zero_grad(module, x):
    module.zero_grad()
    return module(x).sum(), module.weight.grad is None


def _trained(t):
    module = t.module(lambda: nn.Linear(3, 2))
    with torch.no_grad():
        module.weight.copy_(t(2, 3))
        module.bias.copy_(t(2))
    for p in module.parameters():
        p.grad = t(*p.shape)
    return module


@program(CATEGORY, lambda t: (_trained(t), t(t.n, 3)))
def exponential_average_of_a_module(module, x):
    shadow = {k: v.detach().clone() for k, v in module.named_parameters()}
    for name, p in module.named_parameters():
        shadow[name].mul_(0.9).add_(p.data, alpha=0.1)
        p.grad = None
    return shadow, module(x)


def _optimizer(kind, **options):
    def make(t):
        module = _trained(t)
        return kind(module.parameters(), **options), module, t(t.n, 3)

    return make


@program(CATEGORY, _optimizer(torch.optim.SGD, lr=0.1, momentum=0.9), why="torch keeps optimizers out of captures")
def step_of_sgd(optimizer, module, x):
    optimizer.step()
    optimizer.zero_grad()
    return module(x), len(optimizer.state)


@program(CATEGORY)
def parameter_kept_on_a_new_object(x):
    class_like = Cache.__new__(Cache)
    class_like.weight = nn.Parameter(x + 1)
    class_like.weight.tag = "new"
    class_like.list = [class_like.weight, nn.Parameter(x.detach().clone(), False)]
    return class_like


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def parameter_replaced_in_a_module(module, x):
    y = module(x)
    module.weight = nn.Parameter(module.weight.detach() * 2)
    module.register_parameter("bias", None)
    return y, len(list(module.parameters()))


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def module_frozen_after_its_use(module, x):
    y = module(x)
    module.requires_grad_(False)
    return y, [p.requires_grad for p in module.parameters()]


@program(CATEGORY, lambda t: (t(), t()))
def leaf_flag_on_and_off(x, y):
    x.requires_grad_()
    x.requires_grad_(False)
    y.requires_grad = True
    y.requires_grad = True
    return x.requires_grad, y.requires_grad, y.is_leaf


@program(CATEGORY, lambda t: (t(), t.ints()), backward=True)
def flags_of_new_tensors(x, n):
    a = torch.ones(3, requires_grad=True)
    b = torch.randn(2).requires_grad_()
    return b, a.requires_grad, a.is_leaf, n.requires_grad_(False).requires_grad


@program(CATEGORY, lambda t: (t(grad=True), []), known="requires_grad of a view after its base was written")
def flags_of_views_in_a_loop(x, flags):
    base = torch.zeros(3, x.shape[0])
    rows = [base[i] for i in range(3)]
    rows[1].copy_(x)
    flags.extend(r.requires_grad for r in rows)
    flags.append(base.requires_grad)
    return base.sum()


@program(CATEGORY, lambda t: (t(grad=True), t()), known="requires_grad of a view after its base was written")
def detached_alias_keeps_its_flag(x, y):
    base = y.clone()
    bare, view = base.detach(), base[:2]
    base.add_(x)
    return bare.requires_grad, view.requires_grad, bare, view


@program(CATEGORY, lambda t: (t(grad=True), t()), known="requires_grad of a view after its base was written")
def flag_of_a_base_whose_detached_alias_was_written(x, y):
    base = y.clone()
    bare = base.detach()
    with torch.no_grad():
        bare.mul_(x)
    return base.requires_grad, bare.requires_grad, base


@program(CATEGORY, lambda t: (t(), t()), known="identity-based control flow")
def identity_of_views_and_returns(x, y):
    views = [x.view(-1), x.view(-1)]
    same = x.add_(1)
    return views[0] is views[1], same is x, (x if same is x else y) * 2, x.t() is x.t()


@program(CATEGORY, lambda t: (t(), []), known="an operation that fails inside try after an effect")
def own_error_in_try_after_a_write(x, log):
    try:
        x.add_(1)
        log.append("written")
        if len(log) == 1:
            raise RuntimeError("no")
        x.mul_(100)
    except RuntimeError:
        log.append("failed")
        x.mul_(2)
    return x


@program(CATEGORY, lambda t: (GLOBALS[0].view(2, 2),), setup=_globals, state=lambda: GLOBALS, misses=False)
def global_rebound_while_its_element_is_written(x):
    GLOBALS[0] = GLOBALS[0] + 1
    x.zero_()
    GLOBALS.append(x)
    return GLOBALS[0].sum() + GLOBALS[3].sum()


@program(
    CATEGORY, lambda t: (nn.BatchNorm1d(3).eval(), t(t.n, 3)), known="dropout and other ops that return their own input"
)
def alpha_and_feature_dropout_that_drop_nothing(norm, x):
    a = F.alpha_dropout(x, 0.5, training=False)
    b = F.feature_dropout(x, 0.5, False) if hasattr(F, "feature_dropout") else x
    a.mul_(2)
    return a is x, b is x, norm(x)


@program(CATEGORY, known="dropout and other ops that return their own input")
def views_of_own_input_written(x):
    y = x.contiguous()[1:]
    y.add_(5)
    z = x.to(x.device).view(-1)
    z[0] = 0
    return x * 1


@program(CATEGORY, lambda t: (t(t.n, 2), t(t.n, 2)))
def batched_in_place_functions(x, y):
    torch._foreach_add_([x, y], 1.0)
    torch._foreach_mul_([x, y], [y.clone(), x.clone()])
    return x, y


@program(CATEGORY, lambda t: (t(), t()))
def in_place_functional_forms(x, y):
    F.relu(x, inplace=True)
    F.leaky_relu(y, 0.1, inplace=True)
    torch.sigmoid_(x)
    torch.nn.functional.hardtanh_(y)
    return x, y


@program(CATEGORY, lambda t: (t(), t.bools()))
def conditional_writes(x, mask):
    torch.where(mask, x, -x, out=x)
    x[1:] += mask[1:]
    return x


@program(CATEGORY, lambda t: (t(3, t.n), t()))
def writes_through_iteration(x, y):
    for i, row in enumerate(x):
        row += y * i
        row[0] = i
    return x


@program(CATEGORY, lambda t: (t(), t(), []))
def reference_kept_before_a_write(x, y, log):
    old = x
    x = x + y
    old.add_(1)
    x += 1
    log.extend([old, x])
    return old is log[0], x is log[1], old + x
