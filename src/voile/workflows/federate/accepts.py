"""What a party accepts: the most that it promises to each of its rows, whatever others agree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from voile.core.errors import Refused
from voile.core.guarantee import Protected
from voile.ledger import AccountNode
from voile.workflows.federate.agreement import FederationAgreement


@dataclass(frozen=True)
class Accepts:
    """The most that a party promises away, whatever is agreed on, in all that its ledger knows of.

    Args:
        agreement: the digest of the one agreement that it takes part in; any, if None.
    """

    epsilon: float
    delta: float
    agreement: str | None = None

    def check(self, name: str, agreement: FederationAgreement) -> None:
        if self.agreement is not None and self.agreement != agreement.digest:
            raise Refused(
                f"{name!r} has accepted the agreement {self.agreement}, and this one is "
                f"{agreement.digest}; nothing was trained or charged"
            )
        if agreement.epsilon > self.epsilon or agreement.delta > self.delta:
            raise Refused(
                f"{name!r} accepts at most (ε = {self.epsilon:g}, δ = {self.delta:g}), and "
                f"(ε = {agreement.epsilon:g}, δ = {agreement.delta:g}) was agreed on; nothing was "
                "trained or charged"
            )

    def check_ledger(self, name: str, promised: Protected, nodes: Iterable[AccountNode]) -> None:
        """Whatever else this ledger has promised is about the same rows: it adds up.

        Args:
            promised: what the federation's own account is for.
            nodes: all accounts, that of the federation among them.
        """
        roots = [node.account for node in nodes if node.account.parent is None]
        own = [each for each in roots if each.protected == promised]
        others = [each for each in roots if each.protected.dataset != promised.dataset]
        epsilon = sum(each.epsilon for each in (*own, *others))
        delta = sum(each.delta for each in (*own, *others))
        if epsilon > self.epsilon or delta > self.delta:
            raise Refused(
                f"{name!r} accepts at most (ε = {self.epsilon:g}, δ = {self.delta:g}) for all that "
                f"its ledger knows of; with {', '.join(repr(each.name) for each in others)} this "
                f"would be (ε = {epsilon:g}, δ = {delta:g}); nothing was trained or charged"
            )
