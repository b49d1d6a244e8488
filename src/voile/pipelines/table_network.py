"""One private network from one table: a charged release, whose draw is a whole run of DP-SGD.

Every record is part of every step, so a step is a plain Gaussian release. Any account can hold
that: one that adds up rho knows no amplification by sampling. Nothing is lost but time, because
with the number of steps fixed a smaller sample needs no less noise for each unit of signal
(`voile.pipelines.facts`). Architecture and settings are the frozen rule of a federation's black
box, for a federation with one party.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import (
    Adversary,
    Guarantee,
    Protected,
    Relation,
    RowPart,
)
from voile.core.input_file import damaged
from voile.core.randomness import StreamCipher
from voile.core.schema import Schema
from voile.federation.arrays import digest_of_arrays
from voile.federation.messages import Instruction
from voile.federation.stage import Stage
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import BLACK_BOX, LearnLabels
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.events import Gaussian, PrivacyEvent, Repeated, Zcdp
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.sensitivity.bound import positive
from voile.release.charged import STORED, Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec

HIDDEN: Final = (64,)
SCORE_SHARE: Final = 0.1
"""Of the budget, for the table that calibrates a network of two classes."""
PAID_WITH: Final = "app.explain.ReleaseService.obtain"
PUBLIC_FACTS: Final = ("schema", "number of rows", "all settings of training")
RULE_VERSION: Final = 1
"""Of architecture and settings; a change of either is a new version, and asks anew."""
ASSUMPTIONS: Final = (
    "running time is not observed",
    "settings of training were not tuned on these rows",
    "whoever trains sees the rows: the guarantee is not against them",
)
_KIND: Final = "voile table network"
_PARTY: Final = "table"


@dataclass(frozen=True)
class TableNetworkPlan:
    """How a network is trained on one table, from public facts.

    >>> from voile.datasets.clinic import SCHEMA
    >>> about = Protected("row", "blank one", "patients")
    >>> plan = TableNetworkPlan(schema=SCHEMA, rows=8000, protected=about, rho=0.1)
    >>> plan.steps, round(plan.noise_multiplier, 1), plan.epsilon(1e-6) > plan.epsilon(1e-5)
    (160, 29.8, True)

    Args:
        schema: with a label.
        rows: how many there are.
        protected: a row of the data set; zero-out or replace one.
        rho: what all steps may cost together (zero-concentrated differential privacy).
    """

    schema: Schema
    rows: int
    protected: Protected
    rho: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise InvalidInput(f"rho must be finite and above 0, found {self.rho}")
        _ = self.facts, self.objective.output_head

    @cached_property
    def facts(self) -> FederationFacts:
        """Those of a federation with one party; refused where training promises nothing."""
        return FederationFacts(self.schema, {_PARTY: self.rows}, self.protected)

    @property
    def rounds(self) -> int:
        """The learning rate falls from one to the next."""
        return self.facts.rounds

    @cached_property
    def training(self) -> Training:
        """Of each round."""
        rule = classifier_training(self.facts, HIDDEN)
        return replace(rule, sampling_rate=1.0, epochs=float(rule.steps))

    @property
    def steps(self) -> int:
        """Of all rounds."""
        return self.training.steps * self.rounds

    @property
    def has_score_table(self) -> bool:
        """Whether a part of the budget goes to a table that calibrates it."""
        return self.objective.answers == 2

    @property
    def score_rho(self) -> float:
        """The share of the table (`voile.pipelines.score_table`)."""
        return self.rho * SCORE_SHARE if self.has_score_table else 0.0

    @property
    def network_rho(self) -> float:
        return self.rho - self.score_rho

    @property
    def reach(self) -> float:
        """How far one record moves a step, in clipping norms."""
        return 2.0 if self.protected.relation is Relation.REPLACE_ONE else 1.0

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of a step over the clipping norm."""
        return self.reach * math.sqrt(self.steps / (2 * self.network_rho)) * (1 + MARGIN)

    @property
    def event(self) -> PrivacyEvent:
        """What all steps cost."""
        return Repeated(Gaussian(self.noise_multiplier / self.reach), self.steps)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What its releases cost, in order."""
        return (self.event, Zcdp(self.score_rho)) if self.has_score_table else (self.event,)

    def epsilon(self, delta: float) -> float:
        """What all steps promise together at this delta."""
        return zcdp_to_epsilon(self.network_rho, delta)

    @property
    def mechanism(self) -> str:
        """In words."""
        return (
            f"DP-SGD over all rows, {self.steps} steps with normal noise of "
            f"{self.noise_multiplier:.6g} clipping norms on the sum of gradients"
        )

    @cached_property
    def objective(self) -> LearnLabels:
        return LearnLabels(self.schema)

    @cached_property
    def task(self) -> NetworkTask:
        relation = self.protected.relation
        return NetworkTask(self.objective, self.training, self.noise_multiplier, relation)

    @property
    def stage(self) -> Stage:
        """As one of a federation, for what was measured there."""
        return self.facts.stage(BLACK_BOX, self.task)

    def model(self, arrays: Mapping[str, NDArray[Any]]) -> NetworkModel:
        """The network with these parameters."""
        return NetworkModel.from_arrays(self.schema, self.objective.output_head, arrays)

    @property
    def settings(self) -> dict[str, object]:
        """All that a trained network depends on besides the rows, in tags and figures."""
        return {
            "relation": str(self.protected.relation),
            "rho": self.rho,
            "rounds": self.rounds,
            "rows": self.rows,
            "rule": RULE_VERSION,
            "training": {**asdict(self.training), "hidden": list(self.training.hidden)},
        }


@dataclass(frozen=True, eq=False)
class NetworkParameters(OneTimeArtefact):
    """A trained network, as it was released.

    Args: besides those of `OneTimeArtefact`:
        arrays: parameters by name, in float32.

    >>> made = NetworkParameters({"0.weight": np.zeros((2, 3), np.float32)}, event=Gaussian(1.0))
    >>> made.check_paid()
    Traceback (most recent call last):
    voile.core.errors.Refused: these networks were made from protected records ...
    """

    arrays: Mapping[str, NDArray[np.float32]]
    what: ClassVar = "networks"
    paid_with: ClassVar = PAID_WITH

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all parameters, for identities of what depends on them."""
        return digest_of_arrays(self.arrays)


@dataclass(frozen=True, eq=False)
class PrivateTableNetwork(ChargedRelease):
    """A network of the label, trained by DP-SGD on all rows of a table.

    Guarantees
        1. One row moves the sum of a step by the clipping norm at most (zero-out), or twice that
           (replace one); each step has normal noise of `plan.noise_multiplier` norms.
        2. A null row, or one without a label, adds nothing.
        3. No row makes `draw` raise, and nothing but the parameters leaves it.

    Args (in addition to those of `ChargedRelease`):
        records: protected.
        plan: how it is trained.
        progress: told after each round how many are done, and of how many.

    >>> from voile.core.schema import Categories, Feature, Label, Schema
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> records = TableRecords.read(schema, {"smoker": ["no", "yes"] * 20, "ill": ["no"] * 40})
    >>> about = Protected("row", "blank one", "people 1")
    >>> plan = TableNetworkPlan(schema, rows=40, protected=about, rho=0.1)
    >>> made = PrivateTableNetwork(records, plan, protected=about, delta=1e-6).draw()
    >>> sorted(made.arrays)
    ['0.bias', '0.weight', '2.bias', '2.weight']
    """

    records: TableRecords = field(repr=False)
    plan: TableNetworkPlan
    _: KW_ONLY
    epsilon: float = field(init=False)
    progress: Callable[[int, int], None] | None = field(default=None, repr=False)
    tag: ClassVar = "table-network"
    name: ClassVar = "network"
    part: ClassVar = RowPart.TRAINING

    def prepare(self) -> None:
        if self.protected != self.plan.protected:
            raise Refused(f"the plan is about {self.plan.protected}, not {self.protected}")
        if len(self.records) != self.plan.rows:
            raise InvalidInput(
                f"the plan is for {self.plan.rows} rows, found {len(self.records)}: null rows count"
            )
        object.__setattr__(self, "epsilon", self.plan.epsilon(self.delta))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.plan.schema.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {"delta": self.delta, **self.plan.settings}

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self.plan.event

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        made = self.promise(
            mechanism=self.plan.mechanism,
            composition="all steps together, by zero-concentrated differential privacy",
            public_facts=PUBLIC_FACTS,
            assumptions=ASSUMPTIONS,
        )
        return replace(made, computational=True)

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        plan = self.plan
        return Accuracy(
            f"{plan.steps} steps over all rows, each with noise of standard deviation "
            f"{plan.noise_multiplier:.3g} clipping norms on the sum of gradients"
        )

    def draw(self, rows: Any = None) -> NetworkParameters:  # noqa: ARG002
        arrays, source = self.plan.task.start(0), StreamCipher()
        for number in range(1, self.plan.rounds + 1):
            asked = Instruction(BLACK_BOX, number, arrays)
            found = self.plan.task.fit(asked, self.records, self.plan.rows, source)
            arrays = {name: arrays[name] + found.change[name] for name in arrays}
            if self.progress is not None:
                self.progress(number, self.plan.rounds)
        return NetworkParameters(arrays, event=self.cost(1))

    @property
    def codec(self) -> Codec[NetworkParameters]:
        return Codec(lambda made: array_file.pack(_KIND, made.arrays, {}), self._unpack)

    def _unpack(self, content: bytes) -> NetworkParameters:
        arrays = stored_arrays(content)
        with damaged(STORED):
            if {name: each.shape for name, each in arrays.items()} != dict(self.plan.task.shapes):
                raise ValueError(f"expected arrays of shapes {dict(self.plan.task.shapes)}")
        return NetworkParameters(arrays, event=self.cost(1))


def stored_arrays(content: bytes) -> dict[str, NDArray[np.float32]]:
    """What a ledger keeps of such a release; nobody needs the rows for that."""
    arrays, _ = array_file.unpack(content, STORED, _KIND)
    with damaged(STORED):
        if any(array.dtype != np.float32 for array in arrays.values()):
            raise ValueError("expected numbers in single precision")
    return arrays


def joint_guarantee(plan: TableNetworkPlan, *, delta: float) -> Guarantee:
    """What all releases of a plan promise together.

    >>> from voile.datasets.clinic import SCHEMA
    >>> about = Protected("row", "blank one", "patients")
    >>> plan = TableNetworkPlan(schema=SCHEMA, rows=8000, protected=about, rho=0.02)
    >>> round(joint_guarantee(plan, delta=1e-6).epsilon, 2)
    0.9
    """
    table = " and a table of its scores by class" if plan.has_score_table else ""
    return Guarantee(
        epsilon=zcdp_to_epsilon(plan.rho, delta),
        delta=delta,
        protected=plan.protected,
        against=(Adversary.PUBLIC,),
        computational=True,
        mechanism=plan.mechanism + table,
        composition="all releases together, by zero-concentrated differential privacy",
        public_facts=PUBLIC_FACTS,
        assumptions=ASSUMPTIONS,
    )
