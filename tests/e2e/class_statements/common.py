"""The table of programs, and what several of them use."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def caught(call, log):
    """The exception of a call with all that it was caused by, and its notes."""
    try:
        return call()
    except Exception as error:
        while error is not None:
            log.append((type(error).__name__, str(error), getattr(error, "__notes__", None)))
            error = error.__cause__ or error.__context__
        return None


class Named:
    def __init__(self, log, raises=None):
        self.log = log
        self.raises = raises

    def __set_name__(self, owner, name):
        self.log.append((owner.__name__, name))
        if self.raises:
            raise self.raises(f"for {name}")


class Registered:
    known = []

    def __init_subclass__(cls, tag=None, **others):
        super().__init_subclass__(**others)
        cls.tag = tag


class One(type):
    pass


class Two(type):
    pass
