"""Programs drawn at random: statements over few variables, whose values say when they die. A seed is a program."""

import random

KINDS = ("plain", "plain", "fails", "generator")


def source(seed: int) -> str:
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    names = ("a", "b", "c")
    count = 0

    def fresh() -> str:
        nonlocal count
        count += 1
        return f'Number(log, "{count}")'

    def value(depth: int = 0) -> str:
        pick = draw.randrange(12 if depth < 2 else 4)
        if pick < 3:
            return draw.choice(names)
        if pick == 3:
            return fresh()
        if pick == 4:
            return f"({value(depth + 1)} + {value(depth + 1)})"
        if pick == 5:
            return f"gives_back({value(depth + 1)}, {value(depth + 1)})"
        if pick == 6:
            return f"{value(depth + 1)}.method({value(depth + 1)})"
        if pick == 7:
            return f"[{value(depth + 1)}, {value(depth + 1)}][{draw.randrange(2)}]"
        if pick == 8:
            return f"({value(depth + 1)} if {value(depth + 1)} else {value(depth + 1)})"
        if pick == 9:
            return f"({draw.choice(names)} := {value(depth + 1)})"
        if pick == 10:
            return f"replaces(log, {value(depth + 1)})"
        return f"({value(depth + 1)}, {value(depth + 1)}, {value(depth + 1)})[{draw.randrange(3)}]"

    def block(indent: str, size: int, depth: int) -> list[str]:
        return [line for _ in range(size) for line in statement(indent, depth)] or [indent + "pass"]

    def statement(indent: str, depth: int) -> list[str]:
        name, pick, inner = draw.choice(names), draw.randrange(14 if depth < 2 else 9), indent + "    "
        if pick < 3:
            return [f"{indent}{name} = {value()}"]
        if pick == 3:
            return [f"{indent}{value()}"]
        if pick == 4:
            return [f"{indent}{name}, {draw.choice(names)} = {value()}, {value()}"]
        if pick == 5:
            return [f"{indent}log.append(sys.getrefcount({name}))"]
        if pick == 6:
            return [f"{indent}log.append([{name}, {value()}, sys.getrefcount({name})][2])"]
        if pick == 7:
            return [f"{indent}{name}.other = {value()}"]
        if pick == 8:
            if kind == "generator":
                return [f"{indent}{name} = [{value()}, (yield {name}.name)][0]"]
            return [f"{indent}del {name}", f"{indent}log.append('deleted')", f"{indent}{name} = {fresh()}"]
        if pick == 9:
            return [f"{indent}for {name} in {value()}:", *block(inner, 2, depth + 1)]
        if pick == 10:
            return [f"{indent}with {value()} as {name}:", *block(inner, 2, depth + 1)]
        if pick == 11:
            raised = f"{inner}raise ValueError({value()})" if kind == "fails" else f"{inner}{value()}"
            handler = [f"{indent}except ValueError as e:", f"{inner}log.append(type(e).__name__)"]
            return [f"{indent}try:", *block(inner, 2, depth + 1), raised, *handler, *block(inner, 1, depth + 1)]
        if pick == 12:
            return [f"{indent}try:", *block(inner, 2, depth + 1), f"{indent}finally:", *block(inner, 1, depth + 1)]
        return [f"{indent}{name} = [{name} for {name} in {fresh()}][0]"]

    lines = ["    a, b, c = " + ", ".join(fresh() for _ in names), *block("    ", 6, 0), "    log.append('end')"]
    if kind == "generator":
        body = "\n".join("    " + line for line in [*lines, "    yield a.name"])
        return f"def program(log):\n    def g():\n{body}\n    for x in g():\n        log.append(x)\n"
    return "def program(log):\n" + "\n".join([*lines, "    return repr(a)"]) + "\n"
