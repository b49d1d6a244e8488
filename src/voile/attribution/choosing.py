"""Chooses an explainer: by the name of a method, else between exact and sampled values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from voile.attribution.exact import ExactShapley, SurrogateShapley
from voile.attribution.gradients import Gradient, IntegratedGradients
from voile.attribution.kernel import KernelShapley
from voile.attribution.lime import Lime
from voile.attribution.permutation import PermutationShapley
from voile.attribution.players import Groups, Players
from voile.attribution.settings import Speed
from voile.attribution.trees import TreeShapley
from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.schema import Schema
from voile.core.transparency import Method
from voile.models import WrappedModel
from voile.models.wrapped import chosen_places

MOST_EXACT_PLAYERS: Final = 16
_COMPARED: Final = 16
"""Public rows on which the trees are compared with the model."""
_CLOSE: Final = 1e-4
_OVER_A_BACKGROUND: Final[dict[Method, Callable[..., Any]]] = {
    Method.EXACT: ExactShapley,
    Method.KERNEL: KernelShapley,
    Method.PERMUTATION: PermutationShapley,
    Method.LIME: Lime,
    Method.GRADIENTS: IntegratedGradients,
}


def is_exact(players: int) -> bool:
    """Whether Shapley values are computed from all coalitions: up to 16 players.

    >>> is_exact(16), is_exact(17)
    (True, False)
    """
    return players <= MOST_EXACT_PLAYERS


def shapley_explainer(
    model: Any,
    background: Any,
    *,
    schema: Schema,
    groups: Groups | None = None,
    speed: Speed | None = None,
) -> ExactShapley | KernelShapley:
    """Choose an explainer by Shapley values over background rows: exact if there are few players.

    Above 16 players values are sampled, and come with standard errors.

    >>> from voile.core.schema import Feature, Numbers
    >>> schema = Schema("t", (Feature("age", Numbers(0, 120)), Feature("bmi", Numbers(10, 60))))
    >>> explainer = shapley_explainer(lambda x: x.sum(axis=1), [[40.0, 20.0]], schema=schema)
    >>> explainer([[50.0, 25.0]]).values.ravel().tolist()
    [10.0, 5.0]
    """
    kind = (
        ExactShapley
        if is_exact(Players.from_groups(schema.feature_names, groups).count)
        else KernelShapley
    )
    return kind(model, background, schema=schema, groups=groups, speed=speed or Speed())


def explainer_by(
    method: Method,
    model: WrappedModel,
    background: Any,
    *,
    schema: Schema,
    groups: Groups | None = None,
    speed: Speed | None = None,
) -> Any:
    """An explainer by a chosen method.

    Args:
        background: rows that absent features take their values from; not read by `saliency` and
            `surrogate`.

    Raises:
        InvalidInput: the model does not offer what the method needs: gradients, trees, few players.
        Refused: the method does not offer what is asked for.

    >>> import numpy as np
    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.models import wrap
    >>> schema = Schema("t", (Feature("a", Numbers(0, 1)), Feature("b", Numbers(0, 1))))
    >>> model = wrap(lambda rows: rows @ [1.0, 2.0], digest="sum", output_names=["score"])
    >>> explain = explainer_by(Method.LIME, model, np.zeros((1, 2)), schema=schema)
    >>> explain(np.ones((1, 2))).values.shape
    (1, 2, 1)
    """
    method, speed = member(Method, method), speed or Speed()
    common: dict[str, Any] = {"schema": schema, "groups": groups, "speed": speed}
    if method is Method.SALIENCY:
        return Gradient(model, **common)
    if method is Method.TREES:
        return _by_trees(model, TreeShapley(model, background, **common), schema)
    if method is Method.SURROGATE:
        if groups is not None:
            raise Refused("the method surrogate knows the level detailed only")
        names = schema.feature_names
        whole = SurrogateShapley(
            model.source,  # type: ignore[arg-type]
            feature_names=names,
            schema=schema,
            speed=speed,
        )
        return ChosenOutputsExplainer(whole, model)
    return _OVER_A_BACKGROUND[method](model, background, **common)


@dataclass(frozen=True, eq=False)
class ChosenOutputsExplainer:
    """An explainer of all outputs of a model, for those that were chosen (`model.only`)."""

    explainer: Any
    model: WrappedModel

    @property
    def title(self) -> str:
        return str(self.explainer.title)

    @property
    def tag(self) -> str:
        return str(self.explainer.tag)

    def __call__(self, X: Any) -> Explanation:  # noqa: N803
        found: Explanation = self.explainer(X)
        places = chosen_places(self.model.forward) or tuple(range(found.shape[2]))
        if max(places) >= found.shape[2]:
            raise InvalidInput(_other_scale(found.shape[2]))
        picked = found[:, :, list(places)]
        return replace(picked, output_names=self.model.output_names or picked.output_names)


def _by_trees(
    model: WrappedModel, explainer: TreeShapley, schema: Schema
) -> ChosenOutputsExplainer:
    """Refused where the trees add up to something else than what the model says.

    Log-odds of boosting, for example, and columns in another order than the schema's.
    """
    chosen, background = ChosenOutputsExplainer(explainer, model), explainer.background
    rows = explainer.columns.read(background, "the background")[:_COMPARED]
    rows = np.concatenate([schema.null_row[np.newaxis], rows])
    found, said = chosen(rows), model.predict(rows.copy())
    total = found.base_values + found.values.sum(axis=1)
    if total.shape != said.shape or np.abs(total - said).max() > _CLOSE:
        raise InvalidInput(_other_scale(found.shape[2]))
    return chosen


def _other_scale(outputs: int) -> str:
    return (
        f"the trees of this model add up to {outputs} score(s), not to what the model says (log-"
        "odds of boosting, for example): choose the method exact, kernel or permutation"
    )
