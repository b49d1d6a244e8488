"""scikit-learn's estimators that answer each row by itself, and all that they hold.

An estimator is known if its exact type is listed, none of its methods was replaced on the object,
and everything that it refers to is plain data in double precision, listed, or a part of
scikit-learn that is no estimator (a tree, a loss, a kernel). Functions and classes are never:
somebody's metric, kernel or transform may look at a whole batch. And nothing on the way from a row
to its answer may make a jump of rounding (`voile.models.inspection.estimator_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from voile.models.inspection.estimator_rules import RULES, is_exact_after
from voile.models.inspection.genuine import is_listed, is_numpys, is_of

_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "sklearn.calibration": frozenset({"_SigmoidCalibration"}),
    "sklearn.ensemble._hist_gradient_boosting.binning": frozenset({"_BinMapper"}),
    "sklearn.gaussian_process._gpc": frozenset({"_BinaryGaussianProcessClassifierLaplace"}),
    "sklearn.gaussian_process.kernels": frozenset(
        {"CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation"}
        | {"Matern", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel"}
    ),
    "sklearn.multiclass": frozenset({"_ConstantPredictor"}),
    "sklearn.preprocessing": frozenset({"KernelCenterer", "LabelBinarizer", "LabelEncoder"}),
}
"""What listed estimators are made of, beside other listed ones."""
_ONLY_FOR_FITTING: Final = frozenset(
    {"cv", "cv_results_", "param_distributions", "param_grid", "refit"}
    | {"score_func", "scorer_", "scoring", "_curve_scorer"}
)
"""Settings that predictions never look at; some of them are functions."""
_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes, slice, range})
_SEVERAL: Final = frozenset({list, tuple, set, frozenset})
_ARRAYS: Final = frozenset({np.ndarray, np.ma.MaskedArray, np.memmap})
_FOREIGN: Final = ("numpy.random", "scipy.sparse")


def is_row_wise(estimator: Any, method: str) -> bool:
    """Whether a method of an estimator is known to answer each row by itself, and steadily."""
    try:
        return (
            _EstimatorWalk().is_sound(estimator)
            and is_exact_after(estimator, method, True) is not None
        )
    except Exception:  # an estimator that is not fitted, or damaged, is not known
        return False


class _EstimatorWalk:
    """Through an estimator and all that it refers to, everything once."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # kept, so that no id is given twice

    def is_sound(self, part: Any) -> bool:
        if type(part) in _PLAIN:
            return True
        if isinstance(part, type | np.generic | np.dtype | np.ufunc):
            return _is_numbers_own(part)
        if id(part) in self._seen:
            return True
        self._seen[id(part)] = part
        if type(part) in _SEVERAL:
            return all(map(self.is_sound, part))
        if type(part) is dict:
            return all(map(self.is_sound, part.values()))
        if type(part) in _ARRAYS:
            return self._is_sound_array(part)
        return self._is_sound_object(part)

    def _is_sound_array(self, array: Any) -> bool:
        if array.dtype.names:
            return all(self._is_sound_array(array[name]) for name in array.dtype.names)
        if array.dtype.kind == "O":
            return all(map(self.is_sound, array.ravel().tolist()))
        return _is_wide(array.dtype)

    def _is_sound_object(self, part: Any) -> bool:
        kind = type(part)
        if not any(is_of(package, kind) for package in (*_FOREIGN, "sklearn")):
            return False
        if hasattr(kind, "get_params") and not _may_answer(kind):
            return False
        # Parts in C have no attributes that could hold anything of a user's.
        held = {**getattr(part, "__dict__", {}), **(part if isinstance(part, dict) else {})}
        if any(callable(getattr(kind, name, None)) for name in held):
            return False  # a method that was replaced on the object
        return all(self.is_sound(held[name]) for name in held if name not in _ONLY_FOR_FITTING)


def _is_numbers_own(part: Any) -> bool:
    """Numbers, types of numbers and functions of numbers as numpy and Python have them.

    A class of somebody's own can be called, and then computes whatever it likes.
    """
    if isinstance(part, np.ufunc):
        return is_numpys(part)
    if isinstance(part, type):
        return part in _PLAIN or part is object or (is_of("numpy", part) and _is_wide(part))
    return is_of("numpy", type(part)) and _is_wide(getattr(part, "dtype", part))


def _is_wide(kind: Any) -> bool:
    """In single precision a product differs by too much from place to place."""
    found = np.dtype(kind)
    return found.kind not in "fc" or found.itemsize >= 8


def _may_answer(kind: type) -> bool:
    return is_listed(kind, _PARTS) or is_listed(
        kind, {module: tuple(rules) for module, rules in RULES.items()}
    )
