"""Translates calls of NumPy with arrays into operations on the tensors below the arrays.

NumPy itself is called first, on arrays like the program's in everything except data. Its result gives class, dtype,
sizes, strides, shared memory and whether it may be written. The graph's operations are tried on such arrays too; if the
results disagree, the call runs uncaptured. So the tables define computations, never result types. Frequent calls become
operators of torch, others functions of torch._numpy.
"""

import functools
import sys
from typing import Any

import numpy as np
import torch

from gramme._numpy._exact import exact_answer
from gramme._numpy._question import Question, Trial
from gramme._numpy._table import Table
from gramme._numpy._values import (
    NUMPY_DTYPES,
    TORCH_DTYPES,
    Answer,
    Call,
    Stand,
    UnknownCallError,
    VaryingFloat,
    VaryingInt,
    key_of,
)
from gramme._torch.names import DYNAMO_CONFIG

__all__ = ["Answer", "Call", "Stand", "VaryingFloat", "VaryingInt", "answer", "has_dtype", "traces"]


def traces() -> bool:
    """Whether calls of NumPy are captured (`torch._dynamo.config.trace_numpy`)."""
    config = sys.modules.get(DYNAMO_CONFIG)
    return config is None or bool(config.trace_numpy)


ERROR_STATE: Any = getattr(sys.modules.get("numpy._core.umath"), "_extobj_contextvar", None)
"""The context variable that `numpy.errstate()` sets; None where NumPy has none."""


def _values_may_raise() -> bool:
    return not {"warn", "ignore"}.issuperset(np.geterr().values())


def has_dtype(dtype: torch.dtype) -> bool:
    """True if NumPy has arrays of this dtype, so that captures can continue with them."""
    return dtype in NUMPY_DTYPES


_known = functools.cache(Table)


def answer(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], exact: bool = False) -> Answer | str | None:
    """The answer to a call of NumPy: operations, or the name of the method that reads data, or None to run uncaptured.

    exact: what computes is NumPy's call, in the graph, too.
    """
    if not traces() or _values_may_raise():
        return None
    key = key_of((function, args, dict(keywords), exact))
    if key in answers:
        return answers[key]
    try:
        found = _answer(function, args, keywords, exact)
    except Exception:
        if _strict:
            raise
        return None
    if len(answers) >= _MOST_ANSWERS:
        answers.clear()
    if key is not None:
        answers[key] = found
    return found


answers: dict[Any, Answer | str | None] = {}
"""What was answered so far, by all that an answer depends on."""
_MOST_ANSWERS = 10_000


_strict = False
"""In tests: what goes wrong here is an error, not a call carried out for real."""


def _answer(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], exact: bool) -> Answer | str | None:
    table = _known()
    if function in table.of_data:
        return str(function.__qualname__)
    lower = table.rows.get(function)
    if lower is None and function not in table.of_types:
        return None
    for whole in (0, 1):  # one serves as a subscript, the other as a divisor
        try:
            question = Question(function, args, keywords, whole)
            if lower is None:
                return _of_types(question, function)
            if question.result is NotImplemented:
                return Answer(NotImplemented, None)
            written = table.written(function, question)
            if written is not None and question.stands[written].seen:
                return None  # it would count no version of the program's tensor, which autograd compares
            if question.writes_others(written):
                return None
            expected = ... if table.gives_nothing(function) else _expected(question, function)
            if exact:
                return exact_answer(question, function, lower, expected, written)
            return Trial(question).adapted(lower(question), expected)
        except UnknownCallError:
            continue
    return None


def _expected(question: Question, function: Any) -> Any:
    if function is vars(np.ndarray)["__iter__"]:
        return tuple(question.expected(item) for item in question.result)
    return question.expected(question.result)


def _of_types(question: Question, function: Any) -> Answer | None:
    """Results that follow from types and sizes alone."""
    if isinstance(function, type) and issubclass(function, np.generic):
        if len(question.args) == 1 and isinstance(question.args[0], Stand) and not question.keywords:
            array = question.args[0]
            dtype = TORCH_DTYPES[np.dtype(function)]
            value = Call("clone", (array,)) if dtype == array.dtype else Call("to", (array, dtype))
            return Answer(value, question.expected(question.result))
        return None
    return Answer(question.result, None)
