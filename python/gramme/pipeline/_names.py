"""Names of a model's tensors."""

from __future__ import annotations

from torch import nn


class Names:
    """The names of a model's parameters and buffers.

    Attributes:
        of: by id of a tensor; the first name of a tied one.
        unsaved: of buffers that are not in the model's state.

    """

    def __init__(self, model: nn.Module) -> None:
        self.of: dict[int, str] = {}
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self.of.setdefault(id(tensor), name)
        self.unsaved = {
            f"{prefix}.{name}".lstrip(".")
            for prefix, module in model.named_modules()
            for name in module._non_persistent_buffers_set
        }
