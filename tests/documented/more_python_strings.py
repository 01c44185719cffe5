"""From library/datetime and stdtypes: dates, finer points of str and bytes."""

import datetime

from documented import Between, documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


UTC = datetime.timezone.utc
ZONE = datetime.timezone(datetime.timedelta(hours=5, minutes=30), "IST")


@documented(
    "library/datetime: aware and naive do not compare by order, but are unequal; deltas divide; isoformat reads back; ranges are checked",
    lambda: [
        (x(), datetime.datetime(2024, 2, 29, 12), datetime.timedelta(days=365)),
        (x(), datetime.datetime(2024, 1, 31, tzinfo=ZONE), datetime.timedelta(hours=-30)),
        (x(), datetime.date(1, 1, 1), datetime.timedelta(days=-1)),
        (x(), datetime.datetime(2000, 1, 1, tzinfo=UTC), datetime.timedelta(microseconds=1)),
        (x(), datetime.time(23, 59, fold=1), datetime.timedelta(0)),
        (x(), datetime.date(2021, 1, 3), datetime.timedelta.max),
    ],
)
def dates_small_print(t, d, delta):
    other = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    out = attempt(
        lambda: d + delta,
        lambda: d - other,
        lambda: d < other,
        lambda: d == other,
        lambda: d.isoformat(),
        lambda: type(d).fromisoformat(d.isoformat()) == d,
        lambda: d.astimezone(UTC) if d.tzinfo else d.isocalendar(),
        lambda: d.replace(year=2023),
        lambda: d.strftime("%Y-%j %A"),
        lambda: f"{d:%H:%M}",
        lambda: delta / 2,
        lambda: delta // datetime.timedelta(seconds=7),
        lambda: divmod(datetime.timedelta(days=1), delta),
        lambda: (delta * 1.5, abs(delta), -delta),
        lambda: delta.total_seconds(),
        lambda: str(delta),
        lambda: datetime.datetime(2024, 13, 1),
        lambda: hash(d.replace(microsecond=0)) == hash(d.replace(microsecond=0)),
    )
    return t * delta.days, [repr(v) for v in out]


@documented(
    "library/stdtypes: finer points of str and bytes methods: empty separators, translate tables, encoding errors with their attributes",
    lambda: [
        (x(), "they're bill's", "e"),
        (x(), "ǅ ß ı", "ß"),
        (x(), "a,b,,c", ","),
        (x(), "", ""),
        (x(), "\udcff x", " "),
        Between(lambda: log.append("between")),
        (x(), "aaa", "a"),
        (x(), "12½", 5),
    ],
    **cleared,
)
def string_small_print(t, s, sep):
    out = attempt(
        lambda: s.title() + s.swapcase() + s.casefold(),
        lambda: s.split(sep, 1),
        lambda: s.rsplit(None, 1),
        lambda: s.partition(sep),
        lambda: (s.count(sep), s.find(sep, 1), s.rfind(sep)),
        lambda: s.index(sep, 3),
        lambda: s.translate(str.maketrans("ab", "xy", "e")),
        lambda: s.translate({ord("a"): None, 98: "long"}),
        lambda: s.encode("ascii"),
        lambda: s.encode("utf-8", "surrogateescape").hex(" ", -2),
        lambda: s.encode("latin-1", "xmlcharrefreplace"),
        lambda: (s.isdecimal(), s.isdigit(), s.isnumeric(), s.isidentifier(), s.isprintable()),
        lambda: s.removeprefix("a").removesuffix(sep),
        lambda: s.center(9, "ab"),
        lambda: s.zfill(7).ljust(9, "."),
        lambda: s.replace("", "-", 2),
        lambda: sep.join([s, 5]),
        lambda: s.startswith((sep, "a"), 1),
        lambda: s.startswith([sep]),
        lambda: bytes.fromhex(s),
        lambda: bytes([1, len(s) * 50]),
        lambda: b"\xff\xfe".decode("utf-8"),
        lambda: s * -1 + s[::-1],
        lambda: s < sep,
    )
    try:
        s.encode("ascii")
    except UnicodeEncodeError as error:
        out.append((error.start, error.end, error.reason, error.object is s))
    return t * len(s), out
