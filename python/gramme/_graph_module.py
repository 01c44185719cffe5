"""The class of the graph modules that backends are given."""

from typing import Any

from torch.fx._lazy_graph_module import _LazyGraphModule


class LazyGraphModule(_LazyGraphModule):
    """A graph module whose Python is generated at the first call of `forward`.

    That call does not go through Module.__call__: hooks registered for all modules are meant for the program's.
    """

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return type(self).forward(self, *args, **kwargs)

    forward = _lazy_forward
