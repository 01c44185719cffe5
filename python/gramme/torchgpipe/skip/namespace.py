"""Namespaces for names of skip tensors."""

from __future__ import annotations

import abc
import uuid
from typing import Any

__all__ = ["Namespace"]


class _Kinds(abc.ABCMeta):
    """None is a namespace too: the default one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return instance is None or super().__instancecheck__(instance)


class Namespace(metaclass=_Kinds):
    """Keeps names of skip tensors apart, so that one class of modules can be used several times.

    A copy is equal to what it was copied from. Namespaces have an order, which means nothing; None, the default
    namespace, comes before all.

    Example:
        >>> Namespace() == Namespace()
        False

    """

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = uuid.uuid4()

    def __repr__(self) -> str:
        return f"<Namespace '{self.id}'>"

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return type(other) is Namespace and self.id == other.id

    def __lt__(self, other: Namespace | None) -> bool:
        return other is not None and self.id < other.id

    def __le__(self, other: Namespace | None) -> bool:
        return other is not None and self.id <= other.id

    def __gt__(self, other: Namespace | None) -> bool:
        return other is None or self.id > other.id

    def __ge__(self, other: Namespace | None) -> bool:
        return other is None or self.id >= other.id
