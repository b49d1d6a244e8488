"""scikit-learn's estimators that answer each row by itself, and all that they hold.

An estimator is known if its exact type is listed, none of its methods was replaced on the object,
and everything that it refers to is plain data in double precision, listed, or a part of
scikit-learn that is no estimator (a tree, a loss, a kernel). Functions and classes are never:
somebody's metric, kernel or transform may look at a whole batch. And nothing on the way from a row
to its answer may make a jump of rounding (`voile.models.inspection.estimators`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from voile.models.inspection import Unsure, is_listed, is_numpys, is_of, sure

# --- What scikit-learn's estimators make of rounding: a rule for each that is known --------------
# Rows as they are given are *exact*: the same numbers, wherever they stand in a batch. Operations
# on single numbers, look-ups and choices of columns leave them exact; sums and matrix products
# round differently in another place of a batch. A rule says whether what a method gives is exact
# again. It refuses what could make a jump of a difference in rounding: a step behind a product
# (labels, trees, bins), a pole, an input that raises. All else is continuous, and computed in
# double precision.
#
# Not listed, on purpose: labels of linear models, neighbours (distances, then a choice), isotonic
# regression (steps), chains of classifiers (labels as inputs), `NMF` and
# `LatentDirichletAllocation`, which stop when the whole batch has converged, `IterativeImputer` and
# `BernoulliRBM`, which draw at random, and calibration by temperature, which asks whether all of a
# batch are probabilities.


Rule: TypeAlias = Callable[[Any, str, bool], bool]
"""From an estimator, the method that is asked, and whether its input is exact."""


def is_exact_after(estimator: Any, method: str, exact: bool) -> bool:
    """Whether what the method gives is exact; raises `Unsure` where that may be a jump."""
    for module, rules in RULES.items():
        if is_listed(type(estimator), {module: rules}):
            return rules[type(estimator).__name__](estimator, method, exact)
    raise Unsure


# --- Single steps ---------------------------------------------------------------------------------


def _each_number(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
    return sure(exact, method == "transform")


def _looked_up(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
    return sure(True, exact and method == "transform")


def _smooth(*methods: str) -> Rule:
    def rule(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
        return sure(False, method in methods)

    return rule


def _of_exact(*methods: str) -> Rule:
    """With steps, poles or errors on the way: fit for exact input alone."""

    def rule(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
        return sure(False, exact and method in methods)

    return rule


def _function(transformer: Any, method: str, exact: bool) -> bool:
    """Without a function, or with one of numpy's that take each number by itself."""
    sure(None, method == "transform" and not transformer.kw_args)
    return exact if transformer.func is None else sure(False, exact and is_numpys(transformer.func))


def _stochastic_descent(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
    """Other losses have no probabilities, or such as jump where all classes are unlikely."""
    likely = method == "predict_proba" and estimator.loss == "log_loss"
    return sure(False, likely or method == "decision_function")


def _support_vectors(estimator: Any, method: str, exact: bool) -> bool:
    """Between more than two classes there are votes, and iterations that end when it is enough."""
    two = method == "decision_function" and len(estimator.classes_) == 2
    return sure(False, two or (exact and method == "predict_proba"))


def _constant(estimator: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
    drawn = getattr(estimator, "strategy", None) in ("stratified", "uniform")
    return sure(True, not drawn and method in ("predict", "predict_proba"))


# --- Compositions ---------------------------------------------------------------------------------


def _all_exact(estimators: Any, method: str, exact: bool) -> bool:
    """Each of them is looked at: what one is not sure of spoils all."""
    return False not in [_beside(one, method, exact) for one in estimators]


def _beside(estimator: Any, method: str, exact: bool) -> bool:
    named = isinstance(estimator, str) or estimator is None  # "passthrough" and "drop"
    return exact if named else is_exact_after(estimator, method, exact)


def _in_turn(pipeline: Any, method: str, exact: bool) -> bool:
    *before, last = [step for _, step in pipeline.steps]
    for step in before:
        exact = _beside(step, "transform", exact)
    return _beside(last, method, exact)


def _of_columns(transformer: Any, method: str, exact: bool) -> bool:
    sure(None, method == "transform")
    return _all_exact([entry[1] for entry in transformer.transformers_], method, exact)


def _side_by_side(union: Any, method: str, exact: bool) -> bool:
    sure(None, method == "transform")
    return _all_exact([entry[1] for entry in union.transformer_list], method, exact)


def _held_as(name: str) -> Rule:
    def rule(estimator: Any, method: str, exact: bool) -> bool:
        return is_exact_after(getattr(estimator, name), method, exact)

    return rule


def _mean(method_asked: str) -> Rule:
    """A mean, or another sum, of what several say."""

    def rule(ensemble: Any, method: str, exact: bool) -> bool:
        sure(None, method == method_asked and getattr(ensemble, "voting", "soft") == "soft")
        return _all_exact(ensemble.estimators_, method, exact) and False

    return rule


def _one_after_the_other(chain: Any, method: str, exact: bool) -> bool:  # noqa: ARG001
    return _all_exact(chain.estimators_, sure("predict", method == "predict"), False)


def _one_against_all(ensemble: Any, method: str, exact: bool) -> bool:
    asked = [one for one in ensemble.estimators_ if hasattr(one, "get_params")]  # or a constant
    return _all_exact(asked, sure(method, method == "predict_proba"), exact) and False


def _stacked(ensemble: Any, method: str, exact: bool) -> bool:
    both = zip(ensemble.estimators_, ensemble.stack_method_, strict=True)
    between = [is_exact_after(one, asked, exact) for one, asked in both]
    return is_exact_after(ensemble.final_estimator_, method, False not in between)


def _calibrated(ensemble: Any, method: str, exact: bool) -> bool:
    sure(None, method == "predict_proba" and ensemble.method == "sigmoid")
    for pair in ensemble.calibrated_classifiers_:
        decides = hasattr(pair.estimator, "decision_function")
        sure(None, all(type(one).__name__ == "_SigmoidCalibration" for one in pair.calibrators))
        is_exact_after(pair.estimator, "decision_function" if decides else "predict_proba", exact)
    return False


def _boosted(ensemble: Any, method: str, exact: bool) -> bool:
    """Trees, on top of a constant: another estimator there would get single precision."""
    constant = type(ensemble.init_).__name__ in ("DummyClassifier", "DummyRegressor", "str")
    return sure(False, exact and constant and method == _asked_of(ensemble))


def _asked_of(ensemble: Any) -> str:
    return "predict_proba" if hasattr(ensemble, "classes_") else "predict"


def _voting_trees(ensemble: Any, method: str, exact: bool) -> bool:
    """Labels and a median are chosen, so each of them has to be exact."""
    trees = all(type(one).__name__ in _TREES.split() for one in ensemble.estimators_)
    return sure(False, exact and trees and method == _asked_of(ensemble))


def _turned_back(regressor: Any, method: str, exact: bool) -> bool:
    """The answers of a regressor, scaled back."""
    is_exact_after(regressor.regressor_, sure(method, method == "predict"), exact)
    back = regressor.transformer_
    if type(back).__name__ != "FunctionTransformer":
        return sure(False, type(back).__name__ in _SCALERS.split())
    plain = not back.inv_kw_args and any(back.inverse_func is one for one in _SMOOTH_FUNCTIONS)
    return sure(False, plain)


_SMOOTH_FUNCTIONS: Final = (None, np.exp, np.expm1, np.exp2, np.square, np.tanh, np.arctan)
_SCALERS: Final = "MaxAbsScaler MinMaxScaler RobustScaler StandardScaler"
_TREES: Final = (
    "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"
)
_PROBABLE: Final = _smooth("predict_proba", "decision_function")
_NUMBER: Final = _smooth("predict")
_TRANSFORMED: Final = _smooth("transform")


def _listed(*entries: tuple[str, Rule, str]) -> Mapping[str, Mapping[str, Rule]]:
    table: dict[str, dict[str, Rule]] = {}
    for module, rule, names in entries:
        table.setdefault(f"sklearn.{module}", {}).update(dict.fromkeys(names.split(), rule))
    return table


RULES: Final = _listed(
    ("calibration", _calibrated, "CalibratedClassifierCV"),
    ("compose", _of_columns, "ColumnTransformer"),
    ("compose", _turned_back, "TransformedTargetRegressor"),
    ("cross_decomposition", _smooth("predict", "transform"), "PLSRegression"),
    (
        "decomposition",
        _TRANSFORMED,
        "FactorAnalysis FastICA IncrementalPCA PCA TruncatedSVD",
    ),
    ("decomposition", _of_exact("transform"), "KernelPCA"),
    (
        "discriminant_analysis",
        _PROBABLE,
        "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    ),
    ("dummy", _constant, "DummyClassifier DummyRegressor"),
    ("ensemble", _voting_trees, "AdaBoostClassifier AdaBoostRegressor"),
    ("ensemble", _boosted, "GradientBoostingClassifier GradientBoostingRegressor"),
    (
        "ensemble",
        _of_exact("predict_proba"),
        "ExtraTreesClassifier HistGradientBoostingClassifier RandomForestClassifier",
    ),
    (
        "ensemble",
        _of_exact("predict"),
        "ExtraTreesRegressor HistGradientBoostingRegressor RandomForestRegressor",
    ),
    ("ensemble", _mean("predict_proba"), "BaggingClassifier VotingClassifier"),
    ("ensemble", _mean("predict"), "BaggingRegressor VotingRegressor"),
    ("ensemble", _stacked, "StackingClassifier StackingRegressor"),
    (
        "feature_selection",
        _each_number,
        "RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest SelectPercentile "
        "SequentialFeatureSelector VarianceThreshold",
    ),
    ("frozen", _held_as("estimator"), "FrozenEstimator"),
    ("gaussian_process", _smooth("predict_proba"), "GaussianProcessClassifier"),
    ("gaussian_process", _NUMBER, "GaussianProcessRegressor"),
    ("impute", _looked_up, "MissingIndicator SimpleImputer"),
    ("kernel_approximation", _TRANSFORMED, "PolynomialCountSketch RBFSampler"),
    (
        "kernel_approximation",
        _of_exact("transform"),
        "AdditiveChi2Sampler Nystroem SkewedChi2Sampler",
    ),
    ("kernel_ridge", _of_exact("predict"), "KernelRidge"),
    ("linear_model", _PROBABLE, "LogisticRegression LogisticRegressionCV"),
    (
        "linear_model",
        _smooth("decision_function"),
        "Perceptron RidgeClassifier RidgeClassifierCV",
    ),
    ("linear_model", _stochastic_descent, "SGDClassifier"),
    ("linear_model", _held_as("estimator_"), "RANSACRegressor"),
    (
        "linear_model",
        _NUMBER,
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor HuberRegressor Lars "
        "LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression "
        "MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV "
        "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV PoissonRegressor QuantileRegressor "
        "Ridge RidgeCV SGDRegressor TheilSenRegressor TweedieRegressor",
    ),
    (
        "model_selection",
        _held_as("best_estimator_"),
        "GridSearchCV HalvingGridSearchCV HalvingRandomSearchCV RandomizedSearchCV",
    ),
    (
        "model_selection",
        _held_as("estimator_"),
        "FixedThresholdClassifier TunedThresholdClassifierCV",
    ),
    ("multiclass", _one_against_all, "OneVsRestClassifier"),
    ("multioutput", _mean("predict"), "MultiOutputRegressor"),
    ("multioutput", _one_after_the_other, "RegressorChain"),
    ("naive_bayes", _smooth("predict_proba"), "GaussianNB"),
    (
        "naive_bayes",
        _of_exact("predict_proba"),
        "BernoulliNB CategoricalNB ComplementNB MultinomialNB",
    ),
    ("neural_network", _smooth("predict_proba"), "MLPClassifier"),
    ("neural_network", _NUMBER, "MLPRegressor"),
    ("pipeline", _side_by_side, "FeatureUnion"),
    ("pipeline", _in_turn, "Pipeline"),
    ("preprocessing", _each_number, _SCALERS),
    ("preprocessing", _function, "FunctionTransformer"),
    (
        "preprocessing",
        _looked_up,
        "Binarizer KBinsDiscretizer OneHotEncoder OrdinalEncoder TargetEncoder",
    ),
    ("preprocessing", _TRANSFORMED, "PolynomialFeatures"),
    (
        "preprocessing",
        _of_exact("transform"),
        "Normalizer PowerTransformer QuantileTransformer",
    ),
    ("random_projection", _TRANSFORMED, "GaussianRandomProjection SparseRandomProjection"),
    ("semi_supervised", _held_as("estimator_"), "SelfTrainingClassifier"),
    ("svm", _smooth("decision_function"), "LinearSVC"),
    ("svm", _NUMBER, "LinearSVR NuSVR SVR"),
    ("svm", _support_vectors, "NuSVC SVC"),
    ("tree", _of_exact("predict_proba"), "DecisionTreeClassifier ExtraTreeClassifier"),
    ("tree", _of_exact("predict"), "DecisionTreeRegressor ExtraTreeRegressor"),
)


# --------------------------------------------------------------------------------------------------


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
