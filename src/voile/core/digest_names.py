"""Names of voile's classes inside digests of models.

A digest is part of what identifies a stored answer. A class that is renamed or moved keeps the name
it has here, so the same model keeps its digest and nobody is charged a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")
_ATTRIBUTE: Final = "__digest_name__"


def digest_name(name: str) -> Callable[[type[_T]], type[_T]]:
    """A decorator: whatever the class is called later, digests call it `name`.

    >>> @digest_name("voile.training.heads.Softmax")
    ... class Probabilities: ...
    >>> frozen_name(Probabilities)
    'voile.training.heads.Softmax'
    """

    def mark(kind: type[_T]) -> type[_T]:
        setattr(kind, _ATTRIBUTE, name)
        return kind

    return mark


def frozen_name(value: object) -> str | None:
    """The name that a class was given; a subclass does not inherit it."""
    found: str | None = vars(value).get(_ATTRIBUTE) if isinstance(value, type) else None
    return found
