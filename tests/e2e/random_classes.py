"""Draws functions that make a few classes each: metaclasses, hooks, namespaces, keywords, bodies, and errors in any of
them."""

import random

HEAD = """
import gc, torch

class Named:
    def __init__(self, log, fails=None):
        self.log, self.fails = log, fails
    def __set_name__(self, owner, name):
        self.log.append(("named", owner.__name__, name))
        if self.fails:
            raise self.fails(name)
    def __get__(self, instance, owner):
        return len(owner.__name__)

class Counting(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setitem__("sets", self.get("sets", 0) + 1)

def told(call, log):
    try:
        return call()
    except Exception as error:
        while error is not None:
            log.append((type(error).__name__, str(error)))
            error = error.__cause__ or error.__context__
"""
FAILURES = ("ValueError", "KeyError", "TypeError", "AttributeError", "StopIteration", "RuntimeError")


class Draw:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.classes: list[str] = []
        self.metas = ["type"]

    def maybe(self, share: float = 0.5) -> bool:
        return self.random.random() < share

    def failing(self, depth: int) -> list[str]:
        what = self.random.choice(FAILURES)
        return ["    " * depth + f"raise {what}('drawn')"] if self.maybe(0.12) else []

    def meta(self, name: str) -> list[str]:
        """Hooks of a metaclass, each of which goes on by super()."""
        base = self.random.choice(self.metas)
        lines = [f"class {name}({base}):", "    kind = 3"]
        if self.maybe(0.4):
            made = self.random.choice(
                ("{}", "{'given': 1}", "dict(log=log)", "Counting()", "None", "super().__prepare__(name, bases)")
            )
            lines += ["    @classmethod", "    def __prepare__(meta, name, bases, **kw):"]
            lines += [
                "        log.append(('prepare', name, len(bases), sorted(kw)))",
                *self.failing(2),
                f"        return {made}",
            ]
        if self.maybe(0.6):
            lines += [
                "    def __new__(meta, name, bases, names, **kw):",
                "        log.append(('new', name, len(names)))",
            ]
            lines += self.failing(2)
            if self.maybe(0.3):
                lines.append("        names = dict(names)")
            if self.maybe(0.1):
                lines.append("        names.pop('__classcell__', None)")
            given = self.random.choice(("", "", ", **kw"))
            lines.append(f"        made = super().__new__(meta, name, bases, names{given})")
            if self.maybe(0.4):
                lines.append("        made.added = sorted(kw)")
            lines += [
                *self.failing(2),
                self.random.choice(("        return made",) * 6 + ("        return int", "        return None")),
            ]
        if self.maybe(0.5):
            lines += [
                "    def __init__(cls, name, bases, names, **kw):",
                "        log.append(('init', name, sorted(kw)))",
            ]
            lines += [*self.failing(2), "        super().__init__(name, bases, names)"]
        if self.maybe(0.3):
            lines += ["    def __call__(cls, *args):", "        log.append(('call', cls.__name__, len(args)))"]
            lines.append("        return super().__call__(*args)")
        if self.maybe(0.2):
            lines += ["    def __getattr__(cls, name):", "        if name.startswith('__'):"]
            lines += ["            raise AttributeError(name)", "        return 'meta ' + name"]
        if self.maybe(0.15):
            lines += ["    def __set_name__(cls, owner, name):", "        log.append(('inner', cls.__name__, name))"]
        self.metas.append(name)
        return lines

    def body(self, name: str, depth: int) -> list[str]:
        pad = "    " * depth
        parts = [
            [f"{pad}a = {self.random.randint(1, 5)}"],
            [f"{pad}t = x * {self.random.randint(1, 5)}"],
            [f"{pad}n = Named(log{self.random.choice(('', '', ', ' + self.random.choice(FAILURES)))})"],
            [f"{pad}def f(self, t):", f"{pad}    return t + len(__class__.__name__)"],
            [f"{pad}def f(self, t):", f"{pad}    return super().f(t) * 2"],
            [
                f"{pad}@classmethod",
                f"{pad}def g(cls):",
                f"{pad}    return cls.__name__, super().__thisclass__.__name__",
            ],
            [f"{pad}@staticmethod", f"{pad}def s(t):", f"{pad}    return t - 1"],
            [f"{pad}@property", f"{pad}def p(self):", f"{pad}    return self.a"],
            [f"{pad}log.append(('body', {name!r}, __qualname__))"],
            [f"{pad}for i in range(2):", f"{pad}    log.append(i)"],
            [f"{pad}squares = [i * i for i in range(3)]"],
            [f"{pad}__slots__ = ('slot',)"],
            [f"{pad}__private = 3"],
            [
                f"{pad}def __init_subclass__(cls, **kw):",
                f"{pad}    log.append(('subclass', cls.__name__, sorted(kw)))",
                *self.failing(depth + 1),
            ],
            [
                f"{pad}def __init_subclass__(cls, tag=None, **kw):",
                f"{pad}    super().__init_subclass__(**kw)",
                f"{pad}    cls.tag = tag",
            ],
            [f"{pad}def __init__(self, *args):", f"{pad}    self.args = args"],
            [f"{pad}def __class_getitem__(cls, item):", f"{pad}    return cls.__name__, item"],
            [f"{pad}missing"],
            [f"{pad}del a"],
            [f"{pad}given"],
            [f"{pad}b: int = 3"],
            [f"{pad}torch._dynamo.graph_break()"],
        ]
        weights = [4, 4, 3, 5, 2, 2, 2, 2, 4, 2, 2, 0.7, 1, 3, 3, 2, 1, 0.4, 0.4, 0.4, 1, 1.5]
        chosen = self.random.choices(parts, weights, k=self.random.randint(1, 6))
        return [line for part in chosen for line in part]

    def statement(self, name: str) -> list[str]:
        bases = self.random.sample(self.classes, min(len(self.classes), self.random.choice((0, 1, 1, 2))))
        if self.maybe(0.08):
            bases.append(self.random.choice(("int", "tuple", "Exception", "torch.nn.Module", "bool", "3", "object")))
        words = list(bases)
        if self.maybe(0.3):
            words.append(f"metaclass={self.random.choice(self.metas)}")
        words += [f"{word}={self.random.randint(0, 3)}" for word in ("tag", "other") if self.maybe(0.2)]
        lines = [
            f"def make_{name}():",
            f"    class {name}({', '.join(words)}):",
            *self.body(name, 2),
            f"    return {name}",
        ]
        lines.append(f"{name} = told(make_{name}, log) or {self.random.choice([*self.classes, 'object'])}")
        self.classes.append(name)
        return lines

    def use(self, name: str) -> list[str]:
        uses = (
            f"{name}().f(x)",
            f"{name}.t + 1",
            f"({name}.a, {name}.n)",
            f"{name}.g()",
            f"{name}.s(x)",
            f"{name}().p",
            f"{name}.tag",
            f"{name}.added",
            f"{name}[3]",
            f"{name}.nowhere",
            f"[c.__name__ for c in {name}.__mro__]",
            f"type({name}).__name__",
            f"sorted(k for k in vars({name}) if not k.startswith('__'))",
            f"{name}.__annotations__",
            f"type('Called', ({name},), {{'z': 1}}).z",
            f"super({name}, {name}()).f(x)",
            f"isinstance({name}(), {self.random.choice(self.classes)})",
        )
        return [f"log.append(told(lambda: {use}, log))" for use in self.random.sample(uses, 4)]

    def source(self) -> str:
        lines = [line for i in range(self.random.randint(0, 2)) for line in self.meta(f"M{i}")]
        for i in range(self.random.randint(1, 4)):
            lines += self.statement(f"C{i}")
        for name in self.classes:
            lines += self.use(name)
        whole = ["def program(x, log):", "    y = x + 1", *("    " + line for line in lines), "    return y * 2"]
        return HEAD + "\n".join(whole) + "\n"


def source(seed: int) -> str:
    return Draw(seed).source()
