"""scikit-learn's estimators that answer each row by itself, and all that they hold.

An estimator is known if its exact type is listed, none of its methods was replaced on the object,
and everything that it refers to is plain data, listed, or a part of scikit-learn that is no
estimator (a tree, a loss, a kernel). Functions are never: somebody's metric, kernel or transform
may look at a whole batch.

Not listed, on purpose: `NMF` and `LatentDirichletAllocation`, which stop when the whole batch has
converged; `IterativeImputer` and `BernoulliRBM`, which draw at random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from voile.models.inspection.genuine import is_listed, is_of

_LISTED: Final[Mapping[str, frozenset[str]]] = {
    f"sklearn.{module}": frozenset(names.split())
    for module, names in {
        "calibration": "CalibratedClassifierCV",
        "compose": "ColumnTransformer TransformedTargetRegressor",
        "cross_decomposition": "PLSRegression",
        "decomposition": "FactorAnalysis FastICA IncrementalPCA KernelPCA PCA TruncatedSVD",
        "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
        "dummy": "DummyClassifier DummyRegressor",
        "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor "
        "ExtraTreesClassifier ExtraTreesRegressor GradientBoostingClassifier "
        "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
        "RandomForestClassifier RandomForestRegressor StackingClassifier StackingRegressor "
        "VotingClassifier VotingRegressor",
        "feature_selection": "RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest "
        "SelectPercentile SequentialFeatureSelector VarianceThreshold",
        "frozen": "FrozenEstimator",
        "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
        "impute": "MissingIndicator SimpleImputer",
        "isotonic": "IsotonicRegression",
        "kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler "
        "SkewedChi2Sampler",
        "kernel_ridge": "KernelRidge",
        "linear_model": "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor "
        "HuberRegressor Lars LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC "
        "LinearRegression LogisticRegression LogisticRegressionCV MultiTaskElasticNet "
        "MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV OrthogonalMatchingPursuit "
        "OrthogonalMatchingPursuitCV Perceptron PoissonRegressor QuantileRegressor "
        "RANSACRegressor Ridge RidgeCV RidgeClassifier RidgeClassifierCV SGDClassifier "
        "SGDRegressor TheilSenRegressor TweedieRegressor",
        "model_selection": "FixedThresholdClassifier GridSearchCV HalvingGridSearchCV "
        "HalvingRandomSearchCV RandomizedSearchCV TunedThresholdClassifierCV",
        "multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
        "multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
        "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
        "neighbors": "KNeighborsClassifier KNeighborsRegressor NearestCentroid "
        "RadiusNeighborsClassifier RadiusNeighborsRegressor",
        "neural_network": "MLPClassifier MLPRegressor",
        "pipeline": "FeatureUnion Pipeline",
        "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer "
        "LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder "
        "OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler "
        "SplineTransformer StandardScaler TargetEncoder",
        "random_projection": "GaussianRandomProjection SparseRandomProjection",
        "semi_supervised": "SelfTrainingClassifier",
        "svm": "LinearSVC LinearSVR NuSVC NuSVR SVC SVR",
        "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier "
        "ExtraTreeRegressor",
    }.items()
}
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "sklearn.calibration": frozenset({"_SigmoidCalibration", "_TemperatureScaling"}),
    "sklearn.ensemble._hist_gradient_boosting.binning": frozenset({"_BinMapper"}),
    "sklearn.gaussian_process._gpc": frozenset({"_BinaryGaussianProcessClassifierLaplace"}),
    "sklearn.gaussian_process.kernels": frozenset(
        {"CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation"}
        | {"Matern", "PairwiseKernel", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel"}
    ),
    "sklearn.multiclass": frozenset({"_ConstantPredictor"}),
}
_SETTINGS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "DummyClassifier": lambda one: one.strategy not in ("stratified", "uniform"),  # at random
    "FunctionTransformer": lambda one: _number_by_number(one),
}
_ONLY_FOR_FITTING: Final = frozenset(
    {"cv", "cv_results_", "param_distributions", "param_grid", "refit"}
    | {"score_func", "scorer_", "scoring", "_curve_scorer"}
)
"""Settings that predictions never look at; some of them are functions."""
_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes, slice, range, type})
_SEVERAL: Final = frozenset({list, tuple, set, frozenset})
_ARRAYS: Final = frozenset({np.ndarray, np.ma.MaskedArray, np.memmap})
_FOREIGN: Final = ("numpy.random", "scipy.interpolate", "scipy.sparse")


def is_row_wise(estimator: Any) -> bool:
    """Whether an estimator is known to answer each row by itself."""
    return _Walk().is_sound(estimator)


class _Walk:
    """Through an estimator and all that it refers to, everything once."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # kept, so that no id is given twice

    def is_sound(self, part: Any) -> bool:
        if type(part) in _PLAIN or isinstance(part, np.generic | np.dtype | np.ufunc):
            return True
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
        return array.dtype.kind != "O" or all(map(self.is_sound, array.ravel().tolist()))

    def _is_sound_object(self, part: Any) -> bool:
        kind = type(part)
        if any(is_of(package, kind) for package in _FOREIGN):
            return True
        if not is_of("sklearn", kind) or (hasattr(kind, "get_params") and not _may_answer(part)):
            return False
        # Parts in C have no attributes that could hold anything of a user's.
        held = {**getattr(part, "__dict__", {}), **(part if isinstance(part, dict) else {})}
        return all(self.is_sound(held[name]) for name in held if name not in _ONLY_FOR_FITTING)


def _number_by_number(transformer: Any) -> bool:
    """Without a function, or with one of numpy's that take each number by itself."""
    functions = (transformer.func, transformer.inverse_func)
    plain = all(one is None or isinstance(one, np.ufunc) for one in functions)
    return plain and not transformer.kw_args and not transformer.inv_kw_args


def _may_answer(estimator: Any) -> bool:
    kind = type(estimator)
    if any(callable(getattr(kind, name, None)) for name in vars(estimator)):
        return False  # a method that was replaced on the object
    listed = is_listed(kind, _LISTED) or is_listed(kind, _PARTS)
    return listed and _SETTINGS.get(kind.__name__, lambda _: True)(estimator)
