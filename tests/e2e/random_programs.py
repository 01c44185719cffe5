"""Random small programs, and a way to make one that fails smaller.

python tests/e2e/random_programs.py 1234       prints program 1234
python tests/e2e/random_programs.py 1234 run   runs it eagerly and captured, and shrinks it if the runs differ
"""

import ast
import contextlib
import dataclasses
import linecache
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from programs import Program, Tensors

from e2e.front import Compiled, graph_break
from e2e.harness import TESTS, observe

SIGNATURE = "def f(a, b, items, table, box, log):"


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value

    def bump(self, by: Any = 1) -> Any:
        self.value = self.value + by
        return self.value

    @property
    def double(self) -> Any:
        return self.value * 2


class Block:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __enter__(self) -> "Block":
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, *rest: Any) -> bool:
        self.log.append(kind and kind.__name__)
        return kind is KeyError


class Writer:
    """Writes one program. Every tensor has shape (n,), so that any two may meet; ints are kept small by `% 97`."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 1
        self.names = 0
        self.budget = self.r.randint(6, 30)
        self.breaks = self.r.random() < 0.35
        self.tensors = ["a", "b"]
        self.ints: list[str] = []
        self.functions: list[str] = []
        self.loops = 0
        self.depth = 0
        self.nested = 0

    def source(self) -> str:
        self.put("i0, varies = len(items), table['y']")
        self.ints += ["i0", "varies"]
        while self.budget > 0:
            self.statement()
        self.put(f"return {self.value()}, {self.value()}, items[-1:], {self.r.choice(self.ints)}")
        return "\n".join([SIGNATURE, *self.lines]) + "\n"

    # Expressions.

    def new(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def tensor(self) -> str:
        return self.r.choice(self.tensors)

    def pick(self, *options: Callable[[], str]) -> str:
        """One of the options; only that one is written."""
        return self.r.choice(options)()

    def int(self) -> str:
        r = self.r
        known = lambda: r.choice(self.ints)  # noqa: E731
        return self.pick(
            lambda: str(r.randint(-3, 5)),
            known,
            known,
            lambda: f"({known()} * {r.randint(2, 5)} + {known()}) % 97",
            lambda: "len(items)",
            lambda: f"{known()} // {r.choice([2, 3, 0] if r.random() < 0.1 else [2, 3])}",
            lambda: f"min({known()}, {r.randint(0, 9)})",
            lambda: "len(table)",
            self.size,
        )

    def size(self) -> str:
        """What depends on the value of a number by way of a tensor's shape."""
        tensor, known = self.tensor(), self.r.choice(self.ints)
        return self.pick(
            lambda: f"len({tensor}[: {known}])",
            lambda: f"torch.zeros(abs({known}) % 7, 2).numel()",
            lambda: f"torch.arange({known} % 5 + 1).shape[0]",
            lambda: f"{tensor}.repeat({known} % 3).size(0)",
        )

    def condition(self) -> str:
        r = self.r
        options: list[Callable[[], str]] = [
            lambda: f"{self.int()} {r.choice(['<', '>', '==', '!=', '<=', '>='])} {self.int()}",
            lambda: f"{self.int()} % 2",
            lambda: f"'{r.choice('xyz')}' in table",
            lambda: f"isinstance({self.any()}, int)",
            lambda: f"not ({self.int()}) or {self.int()} > 1",
            lambda: "items",
            lambda: f"{self.tensor()} is {self.tensor()}",
        ]
        if self.breaks:
            options.append(lambda: f"({self.tensor()} > 0).any()")
        return self.pick(*options)

    def any(self) -> str:
        """A tensor or an int."""
        r = self.r
        if self.functions and r.random() < 0.3:
            return f"{r.choice(self.functions)}({self.tensor()})"
        options: list[Callable[[], str]] = [
            self.tensor,
            self.tensor,
            self.int,
            lambda: "box.value",
            lambda: "box.double",
        ]
        if r.random() < 0.2:
            options += [
                lambda: f"items[{r.randint(-2, 2)}]",
                lambda: f"table.get('{r.choice('xyz')}', {self.int()})",
                lambda: f"table['{r.choice('xxxxyz')}']",
            ]
        return self.pick(*options)

    def value(self, deep: int = 0) -> str:
        r = self.r
        if deep > 2 or r.random() < 0.3:
            return self.any()
        value = lambda: self.value(deep + 1)  # noqa: E731
        return self.pick(
            lambda: f"({value()} {r.choice('+-*')} {value()})",
            lambda: f"({value()} {r.choice('+-*')} {value()})",
            lambda: f"{self.tensor()}.{r.choice(['sin', 'cos', 'tanh', 'abs', 'relu', 'clone', 'neg', 'detach'])}()",
            lambda: f"torch.{r.choice(['maximum', 'minimum', 'add'])}({self.tensor()}, {self.tensor()})",
            lambda: f"torch.where({self.tensor()} > 0, {self.tensor()}, {self.tensor()})",
            lambda: f"({value()} if {self.condition()} else {value()})",
            lambda: f"({self.tensor()} * {self.tensor()}.sum() * 0.1)",
            lambda: f"sum([{self.any()}, {self.any()}], {self.int()})",
            lambda: "box.bump()",
            lambda: f"torch.ones({r.choice(self.ints)} % 6).sum()",
            lambda: f"({self.tensor()} + {self.tensor()}[{r.choice(self.ints)} % 4])",
            lambda: f"(lambda z, k={self.int()}: z * 2 - k)({self.any()})",
        )

    def sure_tensor(self) -> str:
        return f"{self.tensor()} {self.r.choice('+-*')} ({self.value()})"

    # Statements.

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block; names first bound in it are forgotten behind it."""
        saved = list(self.tensors), list(self.ints), list(self.functions)
        self.put(head)
        self.indent += 1
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.put("pass")
        self.indent -= 1
        self.depth -= 1
        self.tensors, self.ints, self.functions = saved

    def body(self, most: int = 3) -> None:
        for _ in range(self.r.randint(1, most)):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        small = [
            self.assign,
            self.assign,
            self.assign_int,
            self.augment,
            self.in_place,
            self.item,
            self.entry,
            self.attribute,
            self.swap,
            self.note,
        ]
        large = [self.branch, self.loop, self.handler, self.function, self.context, self.comprehension, self.generator]
        jumps: list[Callable[[], None]] = [self.leave] if self.r.random() < 0.15 else []
        if self.breaks and self.r.random() < 0.25:
            jumps.append(self.interrupt)
        self.r.choice(small * 2 + jumps * 4 + (large * 2 if self.depth < 3 and self.budget > 0 else []))()

    def assign(self) -> None:
        line = self.sure_tensor()
        target = self.r.choice([*self.tensors, self.new("t")])
        self.put(f"{target} = {line}")
        if target not in self.tensors:
            self.tensors.append(target)

    def assign_int(self) -> None:
        line = self.int()
        target = self.new("i") if self.r.random() < 0.6 else self.r.choice(self.ints)
        self.put(f"{target} = {line}")
        if target not in self.ints:
            self.ints.append(target)

    def augment(self) -> None:
        self.put(
            self.r.choice(
                [
                    f"{self.tensor()} {self.r.choice(['+=', '-=', '*='])} {self.any()}",
                    f"{self.r.choice(self.ints)} += 1",
                    f"box.value += {self.any()}",
                    f"items[0] += {self.any()}",
                    f"table['x'] *= {self.int()}",
                ]
            )
        )

    def in_place(self) -> None:
        t = self.tensor()
        self.put(
            self.r.choice(
                [
                    f"{t}.add_({self.any()})",
                    f"{t}[0] = {self.int()}",
                    f"{t}[1:] = {self.tensor()}[1:]",
                    f"{t}.mul_(0.5)",
                    f"torch.add({self.tensor()}, {self.tensor()}, out={t})",
                    f"{t}.copy_({self.tensor()})",
                ]
            )
        )

    def item(self) -> None:
        self.put(
            self.r.choice(
                [
                    f"items.append({self.value()})",
                    f"items.append({self.any()})",
                    f"items.insert({self.int()}, {self.any()})",
                    "items.pop()",
                    f"items[{self.r.randint(-2, 1)}] = {self.any()}",
                    "items.reverse()",
                    f"items[1:2] = [{self.any()}, {self.any()}]",
                    "del items[-1]",
                    f"items.extend(({self.any()},) * 2)",
                ]
            )
        )

    def entry(self) -> None:
        key = self.r.choice("xyz")
        self.put(
            self.r.choice(
                [
                    f"table['{key}'] = {self.any()}",
                    f"table.setdefault('{key}', {self.any()})",
                    f"table.pop('{key}', None)",
                    f"if '{key}' in table: del table['{key}']",
                    f"table.update({key}={self.any()})",
                ]
            )
        )

    def attribute(self) -> None:
        self.put(
            self.r.choice(
                [
                    f"box.value = {self.any()}",
                    f"box.extra = {self.any()}",
                    "if hasattr(box, 'extra'): del box.extra",
                    f"box.bump({self.any()})",
                    "box.other = items",
                    f"setattr(box, 'value', {self.any()})",
                ]
            )
        )

    def swap(self) -> None:
        self.put(
            self.r.choice(
                [
                    f"{self.tensor()}, {self.tensor()} = {self.tensor()}, {self.tensor()}",
                    f"box.value, table['x'] = {self.tensor()}, box.value",
                    f"({self.r.choice(self.ints)}, *_) = {self.int()}, {self.int()}, {self.int()}",
                ]
            )
        )

    def note(self) -> None:
        self.put(f"log.append({self.r.choice([self.int(), repr(self.new('n')), f'({self.int()}, {self.any()})'])})")

    def interrupt(self) -> None:
        self.put(self.r.choice([f"print({self.int()})", "graph_break()", f"log.append({self.tensor()}.sum().item())"]))

    def leave(self) -> None:
        options = [f"raise ValueError({self.int()})", f"assert {self.condition()}, 'no'"]
        if self.loops:
            options += ["break", "continue", "break", "continue"]
        if self.depth:
            options.append(f"return {self.value()}")
        jump = self.r.choice(options)
        if self.depth and self.r.random() < 0.5:
            self.put(jump)
        else:
            with self.block(f"if {self.condition()}:"):
                self.put(jump)

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.body()
        if self.r.random() < 0.5:
            with self.block("else:"):
                self.body()

    def loop(self) -> None:
        r = self.r
        self.loops += 1
        kind = r.randrange(4)
        if kind == 0:
            i = self.new("i")
            with self.block(f"for {i} in range({r.randint(0, 4)}):"):
                self.ints.append(i)
                self.body()
        elif kind == 1:
            v = self.new("v")
            with self.block(f"for {v} in list(items)[:3]:"):
                self.put(f"{self.tensor()} = {self.tensor()} + {v}")
                self.body()
        elif kind == 2:
            i, k = self.new("i"), self.new("k")
            with self.block(f"for {i}, {k} in enumerate(sorted(table)):"):
                self.ints.append(i)
                self.put(f"log.append({k})")
                self.body()
        else:
            i = self.new("i")
            self.put(f"{i} = {r.randint(0, 3)}")
            with self.block(f"while {i} > 0:"):
                self.put(f"{i} -= 1")
                self.body()
        self.loops -= 1
        if r.random() < 0.2:
            with self.block("else:"):
                self.body(1)

    def handler(self) -> None:
        with self.block("try:"):
            self.body()
            if self.r.random() < 0.4:
                with self.block(f"if {self.condition()}:"):
                    self.put(
                        self.r.choice(["raise KeyError('k')", "raise ValueError(1) from None", "{}['none']", "1 // 0"])
                    )
        clauses = self.r.randint(0, 2)
        for kind in self.r.sample(["KeyError", "(ValueError, IndexError)", "ZeroDivisionError", "Exception"], clauses):
            with self.block(f"except {kind} as error:"):
                self.put("log.append(type(error).__name__)")
                self.body(2)
                if self.r.random() < 0.15:
                    self.put("raise")
            if kind == "Exception":
                break
        if clauses and self.r.random() < 0.3:
            with self.block("else:"):
                self.body(1)
        if not clauses or self.r.random() < 0.4:
            loops, self.loops = self.loops, 0
            with self.block("finally:"):
                self.note()
                if self.r.random() < 0.5:
                    self.augment()
            self.loops = loops

    def function(self) -> None:
        name, i = self.new("f"), self.r.choice(self.ints)
        changed = i if not self.nested and i.startswith("i") else None
        saved = self.loops, self.breaks
        self.loops = 0
        self.nested += 1
        with self.block(f"def {name}(z, k={self.int()}):"):
            tensors, ints, functions = self.tensors, self.ints, self.functions
            # Free variables are read only, but for one: others might be assigned and so become local.
            self.tensors, self.ints, self.functions = ["z"], ["k"], []
            if changed:
                self.put(f"nonlocal {changed}")
                self.put(f"{changed} += 1")
            self.put(f"w = z + {self.r.choice(tensors)}" if not self.r.random() < 0.5 else "w = z * 2")
            self.tensors.append("w")
            for _ in range(self.r.randint(0, 2)):
                self.r.choice([self.assign, self.assign_int, self.item, self.attribute, self.note, self.branch])()
            self.put(f"return {self.value()}")
            self.tensors, self.ints, self.functions = tensors, ints, functions
        self.nested -= 1
        self.loops, self.breaks = saved
        self.functions.append(name)

    def context(self) -> None:
        with self.block(f"with {self.r.choice(['Block(log)', 'torch.no_grad()', 'Block(log), torch.enable_grad()'])}:"):
            self.body()

    def comprehension(self) -> None:
        i = self.new("c")
        self.put(
            self.r.choice(
                [
                    f"items.extend([{self.tensor()} * {i} for {i} in range(3) if {i} != {self.int()}])",
                    f"table.update({{str({i}): {self.any()} for {i} in range(2)}})",
                    f"log.append(sum({i} * 2 for {i} in range({self.r.randint(0, 4)})))",
                    f"log.append([{i} + 1 for {i} in range(3)])",
                ]
            )
        )

    def generator(self) -> None:
        name, v = self.new("g"), self.new("v")
        with self.block(f"def {name}(z):"):
            self.put("log.append('begin')")
            with self.block(f"for k in range({self.r.randint(1, 3)}):"):
                self.put(f"yield z {self.r.choice('+*-')} k")
                self.put("log.append(k)")
        self.loops += 1
        with self.block(f"for {v} in {name}({self.tensor()}):"):
            self.tensors.append(v)
            self.body(2)
        self.loops -= 1


def generate(seed: int) -> str:
    """The source of program `seed`; always the same for the same seed."""
    return Writer(seed).source()


def make_args(t: Tensors) -> tuple[Any, ...]:
    a = t()
    return a, t(), [1, a, t(), t.steps + 1], {"x": t(), "y": t.steps - 1}, Box(t()), []


def compiled_source(source: str, name: str = "random_program") -> Program:
    """The program as an object of the harness, with its lines known to tracebacks."""
    file = f"{TESTS}/{name}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"torch": torch, "Block": Block, "graph_break": graph_break}
    exec(compile(source, file, "exec"), scope)
    nothing = lambda *_: {}  # noqa: E731
    return Program(
        name,
        "random",
        scope["f"],
        make_args,
        nothing,
        False,
        True,
        True,
        False,
        nothing,
        nothing,
        "",
        "",
        "a number that shapes tensors may meet the recompile limit",
    )


CALLS = ((0, 4, 3), (0, 4, 3), (1, 4, 4), (2, 6, 2), (0, 4, 6))  # seed, size of tensors, and a number in the arguments


def difference(source: str, stop_at: int = 0) -> tuple[str, str] | None:
    return difference_of(compiled_source(source), stop_at)


def _seen(call: Callable[..., Any], program: Program, seed: int, n: int, steps: int) -> str:
    """The outcome but for warnings, which an operation that fails issues once more while it is captured."""
    return str(dataclasses.replace(observe(call, program, seed, n, steps), warned=""))


def difference_of(program: Program, stop_at: int = 0) -> tuple[str, str] | None:
    """The first eager and captured outcome that differ, or None.

    `stop_at`: each segment ends after so many instructions, in whatever frame that is.
    """
    compiled = Compiled(program.function)
    if stop_at:
        from gramme import _C

        _C.testing.testing_capture.limit(compiled.call, stop_at=stop_at, everywhere=True)
    for seed, n, steps in CALLS:
        try:
            with _time_limit(20):
                eager = _seen(program.function, program, seed, n, steps)
        except _TooLongError:
            return None  # nothing to compare with
        with _time_limit(60):
            captured = _seen(compiled.call, program, seed, n, steps)
        if eager != captured:
            return eager, captured
    return None


class _TooLongError(Exception):
    pass


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def shrink(source: str, fails: Callable[[str], bool]) -> str:
    """Take out statements one after another as long as the program still fails."""
    tree = ast.parse(source)
    progress = True
    while progress:
        progress = False
        bodies = [
            body
            for node in ast.walk(tree)
            for name in ("body", "orelse", "finalbody", "handlers")
            if isinstance(body := getattr(node, name, None), list)
        ]
        for body in bodies:
            for i in reversed(range(len(body))):
                taken = body[i]
                if isinstance(taken, ast.FunctionDef) and taken.name == "f":
                    continue
                for replacement in ([], getattr(taken, "body", None)):
                    if not isinstance(replacement, list):
                        continue
                    body[i : i + 1] = replacement
                    if _still_fails(tree, fails):
                        progress = True
                        break
                    body[i : i + len(replacement)] = [taken]
    return ast.unparse(tree) + "\n"


def _still_fails(tree: ast.Module, fails: Callable[[str], bool]) -> bool:
    try:
        source = ast.unparse(tree) + "\n"
        compile(source, "shrunk", "exec")
    except Exception:
        return False
    return fails(source)


def differs(source: str) -> bool:
    """Whether the runs differ, found out in a child process, which may crash or hang."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(60)
        try:
            os._exit(0 if difference(source) is None else 1)
        except BaseException:
            os._exit(2)
    return os.waitpid(child, 0)[1] != 0


if __name__ == "__main__":
    text = generate(int(sys.argv[1]))
    if sys.argv[2:] == ["run"]:
        difference(generate(0))  # imports once, not in each child
        if not differs(text):
            print("no difference")
            sys.exit()
        text = shrink(text, differs)
        print(text, flush=True)
        for title, outcome in zip(("eager", "captured"), difference(text) or (), strict=False):
            print(f"--- {title}\n{outcome}")
    else:
        print(text)
