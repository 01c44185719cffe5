"""Batch normalisation with statistics of the whole mini-batch."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from .._torch.names import BatchNorm
from .checkpoint import is_recomputing

__all__ = ["DeferredBatchNorm"]


class DeferredBatchNorm(BatchNorm):
    """Normalises each micro-batch by itself, and updates its running statistics once a mini-batch, by all of it.

    Args:
        num_features: the channels C of inputs of shape (N, C, ...).
        eps: added to the variance.
        momentum: of the running statistics; None for their cumulative mean.
        affine: whether it has a weight and a bias of shape (C,).
        chunks: how many micro-batches a mini-batch has. If it is cut into fewer, GPipe says so.

    Example:
        >>> bn = DeferredBatchNorm(2, chunks=2)
        >>> _ = bn(torch.ones(3, 2))
        >>> bn.running_mean
        tensor([0., 0.])
        >>> _ = bn(torch.ones(3, 2))
        >>> bn.running_mean
        tensor([0.1000, 0.1000])

    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    sum: Tensor
    sum_squares: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        chunks: int = 1,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats=True)
        self.register_buffer("sum", torch.zeros_like(self.running_mean), persistent=False)
        self.register_buffer("sum_squares", torch.zeros_like(self.running_var), persistent=False)
        self.chunks = chunks
        self.expect(chunks)

    def expect(self, micro_batches: int) -> None:
        """Begins a mini-batch of so many micro-batches; drops what is left of one that failed."""
        self.sum.zero_()
        self.sum_squares.zero_()
        self.counter = 0
        self.tracked = 0
        self.expected = micro_batches

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _track(self, input: Tensor) -> bool:  # noqa: A002
        """Adds a micro-batch to the sums; returns whether it was the last one."""
        dims = [d for d in range(input.dim()) if d != 1]
        with torch.no_grad():
            self.sum += input.sum(dims)
            self.sum_squares += (input**2).sum(dims)
        self.counter += input.numel() // input.size(1)
        self.tracked += 1
        return self.tracked >= self.expected

    def _commit(self) -> None:
        """Updates the running statistics, with the biased variance."""
        self.num_batches_tracked += 1
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        mean = self.sum / self.counter
        var = self.sum_squares / self.counter - mean**2
        self.running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        self.running_var.mul_(1 - momentum).add_(var, alpha=momentum)
        self.expect(self.expected)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Normalises a micro-batch of shape (N, C, ...): in training by itself, else by the running statistics."""
        self._check_input_dim(input)
        if not self.training:
            return functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        if not is_recomputing() and self._track(input):  # a second run of the same micro-batch is not counted
            with torch.no_grad():
                self._commit()
        return functional.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)

    @classmethod
    def convert_deferred_batch_norm(cls, module: nn.Module, chunks: int = 1) -> nn.Module:
        """Replaces the batch normalisations of a module that keep running statistics.

        Args:
            module: itself or its submodules are replaced.
            chunks: see the class.

        Returns:
            The module, or its replacement. One that is deferred by as many chunks already stays the same object.

        Example:
            >>> DeferredBatchNorm.convert_deferred_batch_norm(nn.BatchNorm2d(3), chunks=4)
            DeferredBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

        """
        return cls._convert(module, chunks, {})

    @classmethod
    def _convert(cls, module: nn.Module, chunks: int, made: dict[nn.Module, nn.Module]) -> nn.Module:
        if module in made:  # a module used twice stays one
            return made[module]
        made[module] = converted = cls._converted(module, chunks)
        for name, child in list(module._modules.items()):
            if child is None:
                continue
            replacement = cls._convert(child, chunks, made)
            if replacement is not child:
                setattr(converted, name, replacement)
        return converted

    @classmethod
    def _converted(cls, module: nn.Module, chunks: int) -> nn.Module:
        if isinstance(module, DeferredBatchNorm) and module.chunks == chunks:
            return module
        if not isinstance(module, BatchNorm) or not module.track_running_stats or module.running_mean is None:
            return module
        deferred = cls(module.num_features, module.eps, module.momentum, module.affine, chunks)
        deferred.train(module.training)
        return deferred._take_over(module)

    def _take_over(self, module: Any) -> Self:
        if module.affine:
            self.weight, self.bias = module.weight, module.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(self, name, getattr(module, name))
        for name in ("sum", "sum_squares"):
            setattr(self, name, torch.zeros_like(self.running_mean))
        return self
