"""From library/functions and enum: min, max, sorted; members of enumerations."""

import enum

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Compared:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        log.append((self.v, other.v))
        return self.v < other.v


@documented(
    "library/functions: min and max use < and > of the items in their order, the first extreme wins; sorted uses < only; errors of each",
    lambda: [
        (x(), [Compared(2), Compared(1), Compared(3)]),
        (x(), [3, 1.0, True, 1]),
        (x(), [float("nan"), 1, 2]),
        (x(), [x(1), x(1) * 0.5]),
        (x(), []),
        (x(), [1, "a"]),
        (x(), ["b", "a", "B"]),
    ],
    **cleared,
)
def extremes_in_order(t, values):
    out = attempt(
        lambda: min(values),
        lambda: max(values),
        lambda: min(*values),
        lambda: sorted(values)[0],
        lambda: max(values, key=lambda v: type(v).__name__, default="none"),
        lambda: max(enumerate(values), key=lambda p: -p[0]),
        lambda: sum(values),
        lambda: sum(values, start=t),
        lambda: list(map(max, values, values[1:])),
        lambda: any(values),
        lambda: list(filter(None, values))[:1],
        lambda: max(1, 2, default=3),
        lambda: list(zip(values, [1], strict=True)),
        lambda: list(enumerate(values, start=5))[-1],
    )
    return t * 2, [o.split("\n")[0] if isinstance(o, str) else o for o in out]


class Kind(enum.Enum):
    A = enum.member(lambda t: t * 2)
    B = enum.nonmember(5)
    C = "text"

    @property
    def label(self):
        return f"<{self.name}>"

    @classmethod
    def _missing_(cls, value):
        log.append(value)
        return cls.C if value == "other" else None


class Level(enum.IntEnum):
    def _generate_next_value_(name, start, count, last):  # noqa: N805
        return 100 + count

    LOW = enum.auto()
    HIGH = 10
    TOP = enum.auto()


class Perm(enum.IntFlag, boundary=enum.KEEP):
    R = 4
    W = 2
    RW = 6


class Strict(enum.Flag, boundary=enum.STRICT):
    ONE = 1
    TWO = 2


class Word(enum.StrEnum):
    FIRST = enum.auto()
    Second = "2nd"


@documented(
    "library/enum: member and nonmember, auto's next values, boundaries of flags, StrEnum's lower case; errors name the class",
    lambda: [
        (x(), Level.LOW, "C"),
        (x(), Perm.R | 8, "other"),
        (x(), Word.FIRST, "absent"),
        (x(), Kind.A, "text"),
        (x(), Strict.ONE, 4),
        (x(), Level.TOP, 10),
        (x(), Perm(0), "LOW"),
    ],
    **cleared,
)
def enum_small_print(t, m, key):
    out = attempt(
        lambda: (m.name, str(m), repr(m).split(" at ")[0], f"{m}"),
        lambda: Kind[key],
        lambda: Kind(key).label,
        lambda: Kind.B,
        lambda: Level(key),
        lambda: (list(Level), int(Level.TOP), Level.HIGH + 1),
        lambda: Strict(key),
        lambda: ~Strict.ONE,
        lambda: (list(Perm.RW), ~Perm.R, Perm.W in Perm.RW, len(Perm.RW)),
        lambda: Word(key),
        lambda: Word.FIRST.upper() + Word.Second,
        lambda: setattr(Level, "LOW", 1),
        lambda: m < Level.HIGH,
        lambda: m == Perm.W * 2,
        lambda: type("Made", (Level,), {}),
        lambda: enum.Enum("Anim", "ANT BEE")["BEE"].value,
        lambda: m in Level,
        lambda: Kind.A.value(t),
    )
    return t * (int(m) if isinstance(m, int) else 2), out
