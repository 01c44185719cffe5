"""The interpreter's hook for frame evaluation (PEP 523), by CPython's own functions."""

import ctypes

_API = ctypes.pythonapi
_API.PyInterpreterState_Get.restype = ctypes.c_void_p
_API._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
_API._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]
_API._PyInterpreterState_SetEvalFrameFunc.restype = None
_API._PyInterpreterState_SetEvalFrameFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_DEFAULT = ctypes.cast(_API._PyEval_EvalFrameDefault, ctypes.c_void_p).value


def current() -> int | None:
    """The hook's address; None if there is no hook."""
    found = _API._PyInterpreterState_GetEvalFrameFunc(_API.PyInterpreterState_Get())
    return None if found == _DEFAULT else found


def remove() -> None:
    """Removes a hook that was left. PyTorch's front end leaves its own when a call with fullgraph=True raises, and then
    each call of a Python function takes C stack."""
    _API._PyInterpreterState_SetEvalFrameFunc(_API.PyInterpreterState_Get(), _DEFAULT)
