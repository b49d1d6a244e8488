"""What models are made of: whether they are known to treat the rows of a batch one by one.

Known means steady, too: nothing makes a jump of the rounding that depends on a row's place.

`estimators`  scikit-learn's own, and what they are composed of
`graphs`      ONNX graphs: the axes they work along, and their numbers

`torch.nn.Sequential` of listed layers: `voile.models.networks`. Here is how a class is recognised,
and how a rule says that it does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

T = TypeVar("T")
LEAST_EPSILON: Final = 1e-12
"""Added to a variance before it is divided by; with less of it, normalising can be a jump."""


def is_of(package: str, kind: type) -> bool:
    """Whether `package` has this very class under the name that it bears."""
    home = kind.__module__
    if home != package and not home.startswith(f"{package}."):
        return False
    found: object = sys.modules.get(home)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def is_listed(kind: type, listed: Mapping[str, Iterable[str]]) -> bool:
    """Whether this very class is in a list of modules and names; loads none of the modules.

    No subclass is: it may do anything.
    """
    return any(
        kind.__name__ in names and getattr(sys.modules.get(module), kind.__name__, None) is kind
        for module, names in listed.items()
    )


def is_numpys(function: object) -> bool:
    """Whether this is a function of numpy's or scipy's that takes each number by itself.

    Anybody can make a `ufunc` of a function of their own (`numpy.frompyfunc`).
    """
    name = getattr(function, "__name__", "")
    homes = (sys.modules.get("numpy"), sys.modules.get("scipy.special"))
    return (
        isinstance(function, np.ufunc)
        and function.signature is None
        and any(getattr(home, name, None) is function for home in homes)
    )


class Unsure(Exception):
    """No rule says that rows stay apart."""


def sure(found: T, holds: bool) -> T:
    """`found`, if the condition holds that it rests on."""
    if not holds:
        raise Unsure
    return found
