"""FastSHAP++: black box, surrogate and explainer trained across clients, with a joint guarantee.

In the order of use: the public `Facts`; a plan, `split_total` or `separate_budgets` (a `Setting`, a
`Training` for each stage, by default `default_training`; `StageSpending` and `BudgetReadings` say
what it amounts to), which makes a `PipelinePlan`; `train_private_explainer`, which runs it over
clients with `TableRecords`; and what comes of it, a `PrivateExplainer`.
"""

from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import BLACK_BOX, EXPLAINER, SURROGATE
from voile.pipelines.private_explainer.explaining import PrivateExplainer, train_private_explainer
from voile.pipelines.private_explainer.plan import (
    FOREIGN_BOX,
    BudgetReadings,
    Facts,
    PipelinePlan,
    Setting,
    StageSpending,
    default_training,
    separate_budgets,
    split_total,
)
from voile.pipelines.tables import NetworkModel, TableRecords

__all__ = [
    "BLACK_BOX",
    "EXPLAINER",
    "FOREIGN_BOX",
    "SURROGATE",
    "BudgetReadings",
    "Facts",
    "NetworkModel",
    "NetworkTask",
    "PipelinePlan",
    "PrivateExplainer",
    "Setting",
    "StageSpending",
    "TableRecords",
    "Training",
    "default_training",
    "separate_budgets",
    "split_total",
    "train_private_explainer",
]
