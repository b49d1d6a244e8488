"""The mean of several silos' explanations, of which a server sees the sum and no single one.

Every silo draws its own release from its own rows and charges its own account first, as for a
`FederatedAggregate`; then it publishes all of its explanation but the values (`statement_of`), and
takes part with the values in one round of a secure sum. What comes of it is the same aggregate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

import numpy as np

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.federation.arrays import Arrays, Shapes
from voile.federation.client import Client, NoGuard
from voile.federation.messages import Instruction
from voile.federation.node import Node, SecureMember
from voile.federation.round_log import Outcome
from voile.federation.rounds import Rounds
from voile.federation.secure_aggregation import AttemptStore, Signer
from voile.federation.secure_sum import SecureSum
from voile.federation.stage import Stage
from voile.federation.task import FitResult, Unprotected
from voile.release.federated import FederatedAggregate, SecretTotals, Silo

STAGE: Final = "mean of explanations"
_VALUES, _BASE = "values", "base values"


def statement_of(silo: Silo) -> Silo:
    """All that a silo says in public: its explanation with every value struck out.

    >>> from voile.core.guarantee import Guarantee, Protected
    >>> promise = Guarantee(epsilon=1.0, delta=1e-6, against=("the public",), computational=False,
    ...                     protected=Protected("row", "blank one", "n"), mechanism="noise",
    ...                     composition="one release")
    >>> own = Silo(Explanation(values=[[0.2]], base_values=0.1, feature_names=("age",),
    ...                        guarantees=(promise,)), size=500)
    >>> public = statement_of(own).explanation
    >>> float(public.values.sum()), public.guarantees == own.explanation.guarantees
    (0.0, True)
    """
    shown = silo.explanation
    struck = replace(
        shown,
        values=np.zeros_like(shown.values),
        base_values=np.zeros_like(shown.base_values),
        data=None,
    )
    return replace(silo, explanation=struck)


@dataclass(frozen=True)
class _HandOver:
    """Hands over an explanation that was drawn and charged before: this costs nothing more.

    It draws no noise, so two sums with different silos would tell what one of them added. The stage
    has one round: a node takes part in no other, and reveals shares for one attempt of it.
    """

    values: tuple[int, ...]
    base: tuple[int, ...]

    @property
    def shapes(self) -> Shapes:
        return {_VALUES: self.values, _BASE: self.base}

    def cost(self, size: int) -> None:
        """Nothing: what an explanation cost was charged when it was drawn."""

    def fit(self, instruction: Instruction, records: Any, size: int, source: Any) -> FitResult:  # noqa: ARG002
        shown: Explanation = records
        found = {_VALUES: shown.values, _BASE: shown.base_values}
        return FitResult({name: array.astype(np.float32) for name, array in found.items()}, None)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True)
class SecretMean:
    """What silos and server agree on before they take a mean in secret. All of it is public.

    Args:
        protocol: a secure sum over the silos, with their declared sizes.
        shape: of every silo's values, rows by features by outputs.
        base_shape: of its base values.
        bound: values are clamped to this size, noise included, so that no sum wraps around.
        agreement: digest of what was agreed on; names this mean and no other.

    >>> from voile.federation.secure_aggregation import ActiveServer
    >>> sizes = {"north": 500, "south": 300, "west": 200}
    >>> keys = {name: bytes(32) for name in (*sizes, "server")}  # public Ed25519 keys
    >>> mean = SecretMean(SecureSum(ActiveServer(), keys, sizes), agreement="mean 1",
    ...                   shape=(1, 4, 1), base_shape=(1, 1), bound=2.0)
    >>> mean.stage.rounds  # one, and no second
    1
    """

    protocol: SecureSum
    _: KW_ONLY
    shape: tuple[int, int, int]
    base_shape: tuple[int, ...]
    bound: float
    agreement: str

    def __post_init__(self) -> None:
        if not 0 < self.bound < math.inf or not self.agreement:
            raise InvalidInput("a mean in secret needs a bound on its values and a name of its own")

    @property
    def stage(self) -> Stage:
        task, silos = _HandOver(self.shape, self.base_shape), len(self.protocol.sizes)
        return Stage(STAGE, task, 1, silos, 1, self.protocol, self.bound)

    def node(self, name: str, silo: Silo, sign: Signer, store: AttemptStore) -> Node:
        """The node of a silo, which never sends its values by themselves.

        Args:
            silo: with its own explanation.
            sign: with its identity key.
            store: what it remembers of attempts; durable.
        """
        self._check(name, silo)
        stages = {STAGE: self.stage}
        tasks = {STAGE: self.stage.task}
        client = Client(
            name, silo.size, silo.explanation, tasks, NoGuard(), agreement=self.agreement
        )
        return Node(client, secure=SecureMember(stages, sign, store))

    def totals(self, rounds: Rounds) -> SecretTotals:
        """Run the one round; `Refused` if no sum came of it.

        Args:
            rounds: over the silos' nodes, with this agreement and the server's signature.
        """
        start = {_VALUES: self.shape, _BASE: self.base_shape}
        zeros = {name: np.zeros(shape, dtype=np.float32) for name, shape in start.items()}
        found = rounds.run(self.stage, zeros)
        names = tuple(row.client for row in found.rows if row.outcome.counts)
        if any(row.outcome is Outcome.OVER for row in found.rows) and not names:
            raise Refused(
                "silos have added their values up before, under this agreement: that sum may have "
                "been learnt, and there is no second one"
            )
        if not names:
            raise Refused("too few silos are left for a sum; nothing was learnt of any")
        silos = len(self.protocol.sizes)
        return SecretTotals(
            silos=names,
            values=found.arrays[_VALUES].astype(np.float64),
            base_values=found.arrays[_BASE].astype(np.float64),
            rounding=self.protocol.rounding_error(silos, self.bound),
            secrecy=self.protocol.model.assumptions(silos),
        )

    def aggregate(
        self, rounds: Rounds, statements: Mapping[str, Silo], *, dataset: str, **terms: Any
    ) -> FederatedAggregate:
        """The mean of those who are in the sum.

        Args:
            statements: of all silos, values struck out (`statement_of`).
            dataset, terms: as for `FederatedAggregate`.
        """
        for name, silo in statements.items():
            self._check(name, silo)
        totals = self.totals(rounds)
        present = {name: statements[name] for name in totals.silos}
        return FederatedAggregate(present, dataset=dataset, totals=totals, **terms)

    def _check(self, name: str, silo: Silo) -> None:
        shown = silo.explanation
        if (shown.values.shape, shown.base_values.shape) != (self.shape, self.base_shape):
            raise InvalidInput(f"the explanation of silo {name!r} has another shape than agreed")
        if self.protocol.sizes.get(name) != silo.size:
            raise InvalidInput(f"silo {name!r} has agreed to another size than {silo.size}")
