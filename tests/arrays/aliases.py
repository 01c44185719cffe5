"""Arrays and tensors that share memory: what one side writes, the other side sees."""

from types import SimpleNamespace

import numpy as np
import torch

from arrays import floats, ints, program

SEEN = "NumPy writes where the program has a tensor: the segment ends in front of it"


def tensor(n):
    return (torch.arange(4.0) + n,)


@program()
def writes_an_item(a):
    a[0] = 1.0
    return a.sum(axis=0)


@program()
def writes_in_place(a):
    a += 1
    a *= 2
    return a


@program()
def writes_a_view(a):
    row = a[0]
    row += 1
    return a * 2


@program()
def writes_a_transposed_view(a):
    a.T[0] = 5.0
    return a.copy()


@program()
def writes_a_copy(a):
    b = a.copy()
    b[0] = 9.0
    return a, b


@program()
def returns_a_view(a):
    return a[1:], a.T, a.reshape(-1)


@program(graphs=0, why="nothing is computed")
def returns_its_argument(a):
    return a, a


@program()
def keeps_a_view(a):
    v = a[1]
    a[1] = 7.0
    return v, v.sum()


@program(tensor)
def tensor_written_after_numpy(t):
    a = t.numpy()
    t.add_(1)
    return a * 2, t


@program(tensor)
def array_written_after_numpy(t):
    a = t.numpy()
    a += 1
    return t * 2, a


@program(tensor, graphs=0, why="nothing is computed")
def array_of_an_argument(t):
    return t.numpy()


@program(tensor)
def array_of_a_result(t):
    u = t * 2
    a = u.numpy()
    u += 1
    return u, a


@program(graphs=0, why="nothing is computed")
def tensor_of_an_argument(a):
    return torch.from_numpy(a)


@program()
def tensor_of_an_array_written(a):
    t = torch.from_numpy(a)
    t.mul_(2)
    return a.sum(), t.sum()


@program()
def array_written_after_from_numpy(a):
    t = torch.from_numpy(a)
    a[0] = 3.0
    return t + 1


@program()
def tensor_of_a_view(a):
    t = torch.from_numpy(a[1:])
    t.zero_()
    return a + 1


@program()
def there_and_back_shares(a):
    b = torch.from_numpy(a).numpy()
    b[0] = 4.0
    return a.sum(), b is a


@program()
def two_tensors_of_one_array(a):
    t, u = torch.from_numpy(a), torch.from_numpy(a)
    t.add_(1)
    return u, t is u


@program(lambda n: (lambda a: (a, a))(floats(n, 4)))
def one_array_twice(a, b):
    a += 1
    return b * 2, a is b


@program(lambda n: (lambda a: (a, a[1:]))(floats(n, 4)))
def array_and_its_view(a, b):
    a += 1
    return b * 2


@program(lambda n: (lambda a: (a, torch.from_numpy(a)))(floats(n, 4)))
def array_and_its_tensor(a, t):
    t.add_(1)
    return a * 2


@program(lambda n: (lambda t: (t, t.numpy()))(torch.arange(4.0) + n))
def tensor_and_its_array(t, a):
    a *= 2
    return t + 1


@program()
def writes_by_a_mask(a):
    a[a > 0] = 0.0
    return a


@program(lambda n: (floats(n, 5), ints(n, 2, below=5)))
def writes_by_an_index(a, i):
    a[i] = 1.0
    return a.sum()


@program()
def fills(a):
    a.fill(2.0)
    a[:, 1:] = 3
    return a.mean()


@program()
def output_argument(a):
    np.add(a, 1, out=a)
    np.sqrt(np.abs(a), out=a)
    return a


@program(lambda n: (floats(n, 3, 4), floats(n + 1, 3, 4)))
def copies_into(a, b):
    np.copyto(a, b)
    b[...] = 0
    return a


@program(lambda n: (np.broadcast_to(floats(n, 4), (3, 4)),), graphs=0, why="a read-only array")
def reads_a_read_only_array(a):
    return a * 2, a.flags.writeable


def read_only(n):
    a = floats(n, 4)
    a.flags.writeable = False
    return (a,)


@program(read_only, graphs=0, why="the write raises")
def writes_a_read_only_array(a):
    try:
        a[0] = 1
    except ValueError as error:
        return str(error), a
    return a


@program(lambda n: (SimpleNamespace(x=floats(n, 4)),))
def stores_an_array(o):
    o.y = o.x * 2
    o.x = o.y[1:]
    return o.y


@program(lambda n: (SimpleNamespace(x=floats(n, 4)),))
def writes_an_attributes_array(o):
    o.x[1] = 3.0
    o.x -= 1
    return o.x.sum()


@program(lambda n: ([], floats(n, 4)))
def appends_arrays(log, a):
    log.append(a)
    log.append(a + 1)
    a[0] = 0
    log.append(a[1:])
    return len(log)


@program(lambda n: ({"a": floats(n, 4)},))
def writes_in_a_dict(d):
    d["a"] += 1
    d["b"] = d["a"][:2]
    return d["b"].sum()


@program(tensor, graphs=0, why="print")
def view_over_a_break(t):
    a = t.numpy()
    print("", end="")
    a += 1
    return t


@program(graphs=0, why="print")
def written_over_breaks(a):
    b = a[1:]
    print("", end="")
    b += 1
    print("", end="")
    a *= 2
    return b


@program(lambda n: (floats(n, 4, dtype=np.float32),))
def in_a_loop(a):
    for i in range(4):
        a[i] = a[i] * i
    return a


@program()
def sorts_in_place(a):
    a.sort(axis=1)
    return a


@program(lambda n: (torch.arange(6.0).reshape(2, 3) + n,))
def array_of_a_transposed_tensor(t):
    a = t.t().numpy()
    a[0, 0] = 9.0
    return t, a.strides


@program(lambda n: (ints(n, 4),))
def widens_in_place(a):
    a += 1
    a //= 2
    b = a.view()
    b[0] = 100
    return a


@program(lambda n: (floats(n, 4), torch.zeros(4, dtype=torch.float64)))
def tensor_takes_an_array(a, t):
    t.copy_(torch.from_numpy(a))
    a[0] = 0
    return t


@program(lambda n: (floats(n, 4),))
def reshaped_view_written(a):
    b = a.reshape(2, 2)
    b[0, 0] = 1
    c = a.ravel()
    c[1] = 2
    return a, np.shares_memory(a, b)


@program(lambda n: (floats(n, 3, 4),))
def reshaped_copy_written(a):
    c = a.T.ravel()
    c[0] = 100.0
    d = a.T.reshape(-1)
    d[1] = 200.0
    return a, c, d


@program(lambda n: (floats(n, 4),))
def same_type_is_copied(a):
    b = a.astype(np.float64)
    b[0] = 1
    c = a.astype(np.float64, copy=False)
    c[1] = 2
    d = np.asarray(a)
    d[2] = 3
    e = np.array(a)
    e[3] = 4
    return a, b, c, d, e, d is a


@program(lambda n: (floats(n, 3, 1, 4),))
def squeezed_view_written(a):
    b = a.squeeze()
    b[0] = 1
    np.swapaxes(a, 0, 2)[0] = 2
    np.moveaxis(a, 0, 1)[0] += 3
    return a


@program(lambda n: (floats(n, 4, 4),))
def diagonal_and_real(a):
    a.real[0] = 2.0
    return np.diagonal(a), a


@program(lambda n: (floats(n, 4), floats(n + 1, 4)))
def swaps_two_arrays(a, b):
    a[:], b[:] = b.copy(), a.copy()
    return a - b


@program(lambda n: (floats(n, 6),))
def overlapping_assignment(a):
    a[1:] = a[:-1]
    return a


@program(lambda n: (floats(n, 3, 4), np.zeros(4)))
def reduces_into_a_row(a, row):
    out = a[1]
    np.add.reduce(a[::2], axis=0, out=row)
    np.maximum.reduce(a, axis=0, out=out)
    return a, row


@program()
def writes_some_elements(a):
    np.add(a, 1, out=a, where=a > 0)
    np.multiply(a[0], 2, where=a[0] > 1, out=a[1])
    return a


@program(lambda n: (floats(n, 6), np.array([0, 2, 2])))
def adds_at_indices_of_a_view(a, i):
    half = a[3:]
    np.add.at(half, i, 1.0)
    np.subtract.at(a, i, half)
    return a, half


@program(lambda n: (torch.arange(6.0) + n,), graphs=2, why=SEEN)
def array_of_a_tensors_view(t):
    n = t[2:].numpy()
    n[0] = 9.0
    t[3] = 8.0
    return n, t


@program(lambda n: (floats(n, 4),), graphs=2, why=SEEN)
def views_on_both_sides(a):
    v = torch.from_numpy(a).view(2, 2)
    b = v.t().numpy()
    b[0] = 7.0
    v.mul_(2)
    return a, b, v


@program(lambda n: (lambda t: (t, t[1:].numpy(), t.view(2, 3)))(torch.arange(6.0) + n))
def overlapping_arguments(t, a, v):
    a += 1
    v[0] *= 2
    return t, a


def tensor_writer(t):
    t.add_(1)


@program(lambda n: (SimpleNamespace(t=torch.arange(4.0) + n),), graphs=2, why=SEEN)
def array_of_an_attribute_written_in_a_callee(o):
    o.a = o.t.numpy()
    tensor_writer(o.t)
    o.a[0] = 5.0
    return o.a * 2, o.t


def array_in_a_cell(n):
    a = floats(n, 4)

    def write(t):
        a[1:] = t.numpy()
        return torch.from_numpy(a) + 1

    return write, torch.ones(3, dtype=torch.float64), a


@program(array_in_a_cell, graphs=2, why=SEEN)
def writes_the_array_of_a_cell(f, t, a):
    first = f(t)
    t.mul_(3)
    return first, f(t), a


@program(lambda n: (floats(n, 3, 4), floats(n + 1, 3)))
def copies_where_into_a_transposed_view(a, b):
    np.copyto(a.T, b, where=a.T > 0)
    np.putmask(a, a > 1, 0.5)
    return a


@program(lambda n: (floats(n, 3, 3),))
def adds_its_own_transpose(a):
    a += a.T
    a[[0, 1]] = a[[1, 0]]
    a[:, 0] -= a[0]
    return a


@program(lambda n: (floats(n, 4), floats(n + 1, 4)), graphs=0, why="the size of what is written is data")
def copies_by_a_mask(a, b):
    m = a > b
    a[m] = b[m]
    return a, b


@program(lambda n: (torch.ones(3, requires_grad=True),), graphs=2, why=SEEN)
def writes_a_parameters_array(p):
    a = p.detach().numpy()
    a *= 2
    return p * 2, a


@program(lambda n: ([torch.arange(3.0) + i for i in range(3)],), graphs=3, why=SEEN)
def arrays_of_a_list_of_tensors(ts):
    arrays = [t.numpy() for t in ts]
    for a, t in zip(arrays, ts[::-1], strict=True):
        a += 1
        t -= 2
    return arrays, ts[0] + torch.as_tensor(arrays[1])


@program(lambda n: (floats(n, 4, 2),))
def quotients_in_place(a):
    q, r = np.divmod(a, 0.5)
    a //= 0.25
    q += r
    a[:, 1] %= 3
    return a, q, divmod(a[0], 2.0)


@program(lambda n: (floats(n, 2, 3),), graphs=2, why=SEEN)
def array_of_a_clone(a):
    t = torch.from_numpy(a)
    b, c = t.clone().numpy(), t.contiguous().numpy()
    b[0] = 1
    c[1] = 2
    return a, b, t
