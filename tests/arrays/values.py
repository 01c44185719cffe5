"""What NumPy computes: arguments, results, functions, methods, subscripts, types."""

import math
from types import SimpleNamespace

import numpy as np
import torch

from arrays import floats, ints, program

TABLE = np.linspace(0.0, 1.0, 4)


@program()
def one_function(a):
    return np.sin(a)


@program()
def operators(a):
    return (a + 1) * 2 - a / 3


@program(lambda n: (floats(n, 3, 4), floats(n + 1, 4)))
def broadcasts(a, b):
    return a * b + np.maximum(a, b)


@program(lambda n: (floats(n, 3, 4, dtype=np.float32),))
def narrow_floats_stay_narrow(a):
    return np.exp(a) * 0.5 + 1


@program(lambda n: (floats(n, 4, dtype=np.float32), floats(n, 4)))
def promotes(a, b):
    return a + b, a * np.float64(2), a * np.float32(2)


@program(lambda n: (ints(n),))
def whole_numbers(a):
    return a // 3, a % 3, a / 3, a**2, -a, ~a, a << 1, a & 1


@program(lambda n: (ints(n, dtype=np.int8), ints(n, dtype=np.uint8)))
def narrow_whole_numbers(a, b):
    return a + b, a + 1, b * 2


@program()
def comparisons(a):
    return a > 0, (a > 0) & (a < 1), ~(a == a), np.isnan(a)


@program()
def reductions(a):
    return a.sum(), a.mean(axis=0), a.std(axis=1), a.max(), a.argmax(axis=1), a.prod(axis=-1)


@program()
def reductions_by_function(a):
    return np.sum(a, axis=0, keepdims=True), np.mean(a), np.var(a, axis=1, ddof=1), np.all(a > -9), np.any(a > 9)


@program()
def a_number_that_is_used_on(a):
    m = a.mean()
    return (a - m) / (a.std() + 1e-6), m * 2, np.sqrt(m * m)


@program(graphs=0, why="numbers of data in Python")
def numbers_in_python(a):
    m, i = a.mean(), a.argmax()
    found = [round(m, 3), f"{m:.3f}", max(m, 0.0), sum([m, m]), m == m, m in (1.0, m), hash(m) == hash(float(m))]
    if 0 < abs(m) < 9 and i >= 0:
        found += [math.floor(m), [10, 20, 30][i % 3], {i: 1}[int(i)], np.float32(m), complex(m).real, m.real, -m, m**2]
    return found, m.dtype, m.shape, str(m.dtype), bool(m), m.item(), [m][0] is m


@program(graphs=0, why="a comparison of numbers of data")
def iterates_until(a):
    n = 0
    while np.abs(a).max() > 0.1 and n < 50:
        a = a * 0.5
        n += 1
    return a, n


@program()
def types_of_results(a):
    m = a.mean()
    return type(m).__name__, isinstance(m, float), isinstance(a, np.ndarray), type(a * 2).__name__


@program()
def attributes(a):
    return a.shape, a.ndim, a.size, a.dtype.name, len(a), a.T, a.itemsize, a.nbytes


@program()
def decides_by_shape_and_type(a):
    if a.ndim == 2 and a.shape[0] == 3 and a.dtype == np.float64:
        return a.reshape(-1)
    return a


@program()
def subscripts(a):
    return a[0], a[:, 1], a[1:, ::2], a[..., -1], a[0, 0], a[None, 0], a[-1, 1:]


@program(lambda n: (floats(n, 5, 4), ints(n, 3, below=5)))
def subscripts_by_arrays(a, i):
    return a[i], a[i, 0], a[[0, 2]], a[:, [1, 0]], np.take(a, i, axis=0)


@program(graphs=0, why="the size of the result is data")
def subscripts_by_masks(a):
    return a[a > 0].sum()


@program()
def chooses(a):
    return np.where(a > 0, a, 0.0), np.where(a > 0, 1, -1), np.clip(a, -1, 1), a.clip(0, None)


@program()
def reshapes(a):
    return (
        a.reshape(4, 3),
        a.T.reshape(-1),
        a.ravel(),
        a.flatten(),
        a.transpose(1, 0),
        np.expand_dims(a, 0),
        a.squeeze(),
    )


@program(lambda n: (floats(n, 2, 3), floats(n + 1, 2, 3)))
def joins(a, b):
    return np.concatenate([a, b]), np.stack((a, b), axis=1), np.vstack([a, b]), np.hstack([a, b])


@program()
def splits(a):
    left, right = np.split(a, 2, axis=1)
    return left + right, np.array_split(a, 2)


@program(lambda n: (floats(n, 3, 4), floats(n + 1, 4, 2)))
def products(a, b):
    return (
        a @ b,
        np.dot(a, b),
        np.matmul(a, b),
        np.einsum("ij,jk->ik", a, b),
        np.outer(a[0], b[:, 0]),
        np.tensordot(a, b, 1),
    )


@program(lambda n: (floats(n, 4), floats(n + 1, 4)))
def dot_of_vectors(a, b):
    return a @ b, np.dot(a, b), np.inner(a, b), np.vdot(a, b)


@program(lambda n: (floats(n, 3, 3),))
def linear_algebra(a):
    s = a @ a.T + 3 * np.eye(3)
    return np.linalg.inv(s), np.linalg.det(s), np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.solve(s, a)


@program(lambda n: (floats(n, 3, 3),))
def factors(a):
    s = a @ a.T + 3 * np.eye(3)
    return np.linalg.cholesky(s), np.linalg.eigvalsh(s), np.trace(s)


@program(lambda n: (floats(n, 8),))
def fourier(a):
    f = np.fft.rfft(a)
    return np.abs(f), np.fft.irfft(f), np.fft.fft(a).real


@program(lambda n: (floats(n, 4) + 1j * floats(n + 1, 4),))
def complex_numbers(a):
    return a.real, a.imag, np.abs(a), np.conj(a), a * a, a + 1


@program(lambda n: (4,))
def makes_arrays(n):
    return np.zeros(n), np.ones((2, n)), np.arange(n), np.linspace(0, 1, n), np.eye(n), np.full((2,), 3.0)


@program()
def makes_alike(a):
    return np.zeros_like(a), np.ones_like(a), np.full_like(a, 2.0)


@program(lambda n: (floats(n, 4), float(n)), graphs=2, why="a number becomes one that varies")
def makes_of_lists(a, x):
    return np.array([1.0, 2.0, 3.0, 4.0]) + a, np.asarray([1, 2, 3, 4]) * a, np.array(x) * a


@program()
def converts(a):
    return (
        a.astype(np.float32),
        a.astype(int),
        a.astype("float32"),
        a.astype(bool),
        np.float32(2) * a.astype(np.float32),
    )


@program()
def sorts(a):
    return np.sort(a, axis=1), np.argsort(a, axis=0), np.cumsum(a, axis=1), np.cumprod(a), np.diff(a)


@program(graphs=0, why="views with negative strides are returned")
def flips(a):
    return np.flip(a), np.roll(a, 1), np.rot90(a), np.tile(a, (2, 1)), np.repeat(a, 2, axis=0), a[:, ::-1]


@program()
def reversed_copies(a):
    b = a[:, ::-1].copy()
    return b, np.ascontiguousarray(np.flip(a, 0)) + 1, a[..., ::-1] * a[::-1], np.flip(a).sum(axis=0)


@program()
def grids(a):
    x, y = np.meshgrid(a[0], a[1])
    return x * y, np.triu(a), np.tril(a), np.diag(a)


@program()
def rounds(a):
    return np.floor(a), np.ceil(a), np.round(a), np.rint(a), np.trunc(a), np.sign(a), np.round(a, 1)


@program()
def more_functions(a):
    return np.tanh(a), np.log1p(np.abs(a)), np.hypot(a, a), np.arctan2(a, a + 1), np.expm1(a), np.square(a), np.cbrt(a)


@program()
def statistics(a):
    return np.median(a), np.quantile(a, 0.5), np.percentile(a, 30, axis=0), np.average(a, axis=1), np.ptp(a, axis=0)


@program()
def keyword_arguments(a):
    return a.sum(axis=1, dtype=np.float32), np.add(a, 1, dtype=np.float32), a.mean(axis=(0, 1), keepdims=True)


@program()
def methods_of_functions(a):
    return np.add.reduce(a, axis=0), np.multiply.accumulate(a, axis=1), np.add(a, 1, where=a > 0, out=np.zeros_like(a))


@program(lambda n: (floats(n, 3, 4), ints(n, 3, 4, below=2).astype(bool)))
def some_elements(a, m):
    return np.sum(a, where=m), a.sum(axis=0, where=m, initial=2.0), np.max(a, initial=0.0), np.any(m, where=m, axis=1)


@program(lambda n: (floats(n, 3), floats(n + 1, 4), ints(n, 6)))
def tables_of_functions(a, b, i):
    q, r = divmod(i, 4)
    return np.subtract.outer(a, b), np.minimum.accumulate(b), np.logical_or.reduce(i > 3), q, r, np.divmod(a, 0.5)


@program()
def into_an_output(a):
    out = np.empty_like(a)
    np.multiply(a, 2, out=out)
    return out


def helper(a, *, scale=2.0):
    return a * scale


@program()
def through_functions(a):
    return helper(helper(a), scale=3.0), list(map(helper, [a, a + 1]))


@program(lambda n: ([floats(n, 3), floats(n + 1, 3)], {"w": floats(n + 2, 3)}))
def in_containers(xs, d):
    return [x * d["w"] for x in xs], {"sum": sum(xs)}


@program(lambda n: (SimpleNamespace(w=floats(n, 3), b=floats(n + 1, 3)), floats(n + 2, 3)))
def as_attributes(m, x):
    return m.w * x + m.b


@program(lambda n: (floats(n, 4),))
def with_a_global(a):
    return a * TABLE + TABLE.sum()


def make_closure(n):
    w = floats(n, 4)

    def inner(x):
        return x * w

    return inner, floats(n + 1, 4)


@program(make_closure)
def with_a_closure(f, x):
    return f(x) + 1


@program(lambda n: (floats(n, 3, 4),))
def rows_in_a_loop(a):
    total = 0
    for row in a:
        total = total + row.sum()
    return total


@program(lambda n: (floats(n, 3),))
def takes_apart(a):
    x, y, z = a
    return x * y + z


@program(lambda n: (floats(n, 4),), graphs=0, why="a branch on data")
def decides_by_data(a):
    if a.sum() > 0:
        return a * 2
    return a - 1


@program(lambda n: (floats(n, 4),), graphs=0, why="a Python number of data")
def python_numbers_of_data(a):
    return float(a.sum()), a.tolist(), int(a[0] * 10), a[0].item()


@program(lambda n: (floats(n, 4), torch.arange(4.0)))
def beside_tensors(a, t):
    return torch.from_numpy(a) + t, torch.as_tensor(a) * 2, torch.tensor(a)


@program(lambda n: (torch.arange(4.0) + n,))
def of_a_tensor(t):
    a = t.numpy()
    return np.sin(a) + 1


@program(lambda n: (torch.arange(4.0) + n,))
def there_and_back(t):
    return torch.from_numpy(np.square((t * 2).numpy()) + 1).sum()


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


@program(lambda n: (linear(), floats(n, 3, 4, dtype=np.float32)))
def through_a_module(m, a):
    with torch.no_grad():
        return m(torch.from_numpy(a)).detach().numpy().argmax(axis=1)


@program(lambda n: (torch.ones(3, requires_grad=True),))
def of_a_detached_tensor(t):
    return t.detach().numpy() * 2, t.detach().cpu().numpy()


@program(lambda n: (floats(n, 4, dtype=np.float16),))
def half_floats(a):
    return a + 1, a.sum(), a * a


@program(lambda n: (ints(n, below=2).astype(bool), ints(n + 1, below=2).astype(bool)))
def truth_values(a, b):
    return a & b, a | b, a ^ b, ~a, np.logical_and(a, b), a.sum(), a.astype(float)


@program(lambda n: (np.array(["a", "b"]), floats(n, 2)), graphs=0, why="an array of text")
def array_of_text(s, a):
    return s.tolist(), a * 2


@program(lambda n: (np.array([1, "a", None], dtype=object), floats(n, 2)), graphs=0, why="an array of objects")
def array_of_objects(s, a):
    return list(s), a * 2


@program(lambda n: (np.zeros(2, dtype=[("x", float), ("y", int)]), floats(n, 2)), graphs=0, why="a structured dtype")
def structured(s, a):
    return s["x"] + a


@program(lambda n: (floats(n, 4),), graphs=0, why="NumPy's random numbers")
def random_numbers(a):
    np.random.seed(3)
    return a + np.random.rand(4), np.random.default_rng(1).normal()


@program(lambda n: (floats(n, 3, 4)[::-1],), graphs=0, why="a negative stride")
def backward_array(a):
    return a * 2


@program(lambda n: (np.float64(n + 0.5), floats(n, 3)), graphs=0, why="a number of NumPy's is a constant")
def scalar_argument(s, a):
    return a * s, s * 2, s + a.sum(), math.sin(s)


@program(lambda n: (np.array(n + 0.5), floats(n, 3)))
def array_without_dimensions(s, a):
    return a * s, s + 1, s[()], s.shape


@program(lambda n: (floats(n, 0, 3),))
def empty_array(a):
    return a.sum(), a * 2, a.T, a.shape


@program(lambda n: (floats(n, 6, 6),))
def mandelbrot(a):
    c = a[:, :3] + 1j * a[:, 3:]
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int64)
    for _ in range(5):
        z = z * z + c
        inside = np.abs(z) < 2
        count = count + inside
        z = np.where(inside, z, 2.0)
    return count


@program(lambda n: (floats(n, 10, 2), floats(n + 1, 3, 2)))
def k_means_step(x, centers):
    distances = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(axis=-1)
    labels = distances.argmin(axis=1)
    one_hot = (labels[:, None] == np.arange(3)[None, :]).astype(x.dtype)
    return labels, (one_hot.T @ x) / np.maximum(one_hot.sum(axis=0)[:, None], 1)


@program(lambda n: (floats(n, 4), 1))
def cart_pole_step(state, action):
    x, x_dot, theta, theta_dot = state
    force = 10.0 if action == 1 else -10.0
    cos, sin = np.cos(theta), np.sin(theta)
    temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
    acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    x_acc = temp - 0.05 * acc * cos / 1.1
    state = np.array([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * acc])
    return state.astype(np.float32)


@program(lambda n: (floats(n, 4, 32), ints(n, 32, below=2)))
def cart_poles_step(state, action):
    """Of 32 environments at once."""
    x, x_dot, theta, theta_dot = state
    force = np.where(action == 1, 10.0, -10.0)
    cos, sin = np.cos(theta), np.sin(theta)
    temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
    acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    x_acc = temp - 0.05 * acc * cos / 1.1
    x, theta = x + 0.02 * x_dot, theta + 0.02 * theta_dot
    done = (x < -2.4) | (x > 2.4) | (theta < -0.2) | (theta > 0.2)
    return np.stack([x, x_dot + 0.02 * x_acc, theta, theta_dot + 0.02 * acc]), np.where(done, 0.0, 1.0), done


@program(lambda n: (ints(n, 8, 8, 3, below=255, dtype=np.uint8),))
def transforms(image):
    x = image.astype(np.float32) / 255.0
    x = x[1:7, 1:7]
    mean = np.array([0.48, 0.45, 0.40], dtype=np.float32)
    x = (x - mean) / np.array([0.22, 0.22, 0.22], dtype=np.float32)
    return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))


@program(lambda n: (ints(n, 20, below=2), floats(n + 1, 20)))
def metrics(y, scores):
    p = 1 / (1 + np.exp(-scores))
    predicted = (p > 0.5).astype(np.int64)
    tp = np.sum((predicted == 1) & (y == 1))
    fp = np.sum((predicted == 1) & (y == 0))
    fn = np.sum((predicted == 0) & (y == 1))
    loss = -np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12))
    return 2 * tp / (2 * tp + fp + fn), loss, np.mean(predicted == y)


@program(lambda n: (floats(n, 20), floats(n + 1, 20)))
def r2_score(y, p):
    return 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum()
