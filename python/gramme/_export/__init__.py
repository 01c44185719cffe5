"""gramme.export: a module as torch.export.ExportedProgram, captured by gramme and not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["export"]


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> torch.export.ExportedProgram:
    """Capture a module's call as one graph without running it; as torch.export.export(strict=True).

    The module and the arguments stay as they are. Arguments and parameters may be on the meta device.

    Args:
        module: the module; its forward is captured.
        args, kwargs: example arguments.
        dynamic_shapes: which sizes and ints may vary, as torch.export.export takes it; None: none does.
        preserve_module_call_signature: paths of submodules that torch.export.unflatten gives back as they are called.
        prefer_deferred_runtime_asserts_over_guards: as torch.export.export takes it.

    Returns:
        A torch.export.ExportedProgram: save, load, unflatten and run_decompositions work as with torch.export's.

    Raises:
        CaptureError: the call is not one graph; it is a torch._dynamo.exc.Unsupported too.
        torch._dynamo.exc.UserError: arguments or results of other types, or sizes that the program does not let vary as
            dynamic_shapes has it; with fixes in the user's names.

    Example:
        >>> import torch, gramme
        >>> program = gramme.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
        >>> program.module()(torch.ones(4, 3)).shape
        torch.Size([4, 2])

    """
    from ._front import front_end, marks_put_back

    with front_end(), marks_put_back((args, kwargs)):
        return torch.export.export(
            module,
            args,
            kwargs,
            dynamic_shapes=dynamic_shapes,
            strict=True,
            preserve_module_call_signature=preserve_module_call_signature,
            prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
        )
