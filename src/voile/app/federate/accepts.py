"""What a party accepts: the most that it promises to each of its rows, whatever others agree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from voile.app.federate.agreement import FederationAgreement
from voile.core.errors import Refused
from voile.records.ledger import AccountNode


@dataclass(frozen=True)
class Accepts:
    """The most that a party promises away, whatever is agreed on, in all that its ledger knows of.

    Args:
        agreement: the digest of the one agreement that it takes part in; any, if None.
        columns: declared columns that it is enough to protect; whole rows, if there are none. The
            same epsilon promises less for some columns, because it makes all others public.
    """

    epsilon: float
    delta: float
    agreement: str | None = None
    columns: frozenset[str] = frozenset()

    def check(self, name: str, agreement: FederationAgreement) -> None:
        if self.agreement is not None and self.agreement != agreement.digest:
            raise Refused(
                f"{name!r} accepted the agreement {self.agreement}, but this one is "
                f"{agreement.digest}; nothing was trained or charged"
            )
        self._check_unit(name, frozenset(agreement.protected.columns))
        epsilon = agreement.epsilon_of(name)
        if epsilon > self.epsilon or agreement.delta > self.delta:
            raise Refused(
                f"{name!r} accepts at most (ε = {self.epsilon:g}, δ = {self.delta:g}), but the "
                f"agreement has (ε = {epsilon:g}, δ = {agreement.delta:g}); nothing was trained "
                "or charged"
            )

    def _check_unit(self, name: str, protected: frozenset[str]) -> None:
        if protected and not (self.columns and self.columns <= protected):
            wanted = f"the columns {sorted(self.columns)}" if self.columns else "whole rows"
            raise Refused(
                f"{name!r} accepts an agreement that protects {wanted}, and this one protects the "
                f"columns {sorted(protected)} alone; nothing was trained or charged. If the others "
                "may become public, list those under columns in [accepts] of its node.toml"
            )

    def check_ledger(self, name: str, nodes: Iterable[AccountNode]) -> None:
        """Everything that a ledger has ever promised is about the same rows: it adds up.

        Roots alone are counted: what is granted below one lies within its promise. Whatever unit,
        data set and name they are for, and each of their periods: a renewal promises once more and
        takes nothing back. An account that was never charged counts, because it can be.

        Args:
            nodes: all accounts, that of the federation among them.
        """
        roots = [node for node in nodes if node.account.parent is None]
        if len({root.account.protected.columns for root in roots}) > 1:
            raise Refused(
                f"the ledger of {name!r} would promise different things about the same rows: what "
                "protects some columns makes all others public, and breaks what was promised for "
                "whole rows or other columns: " + ", ".join(map(_line, roots)) + "; nothing was "
                "trained or charged",
                to_others=_elsewhere(name),
            )
        epsilon = sum(_periods(root) * _as_written(root.account.epsilon) for root in roots)
        delta = sum(_periods(root) * _as_written(root.account.delta) for root in roots)
        if epsilon > _as_written(self.epsilon) or delta > _as_written(self.delta):
            raise Refused(
                f"{name!r} accepts at most (ε = {self.epsilon:g}, δ = {self.delta:g}) for all that "
                f"its ledger has promised, over all periods, and this would be "
                f"(ε = {float(epsilon):g}, δ = {float(delta):g}): "
                + ", ".join(map(_line, roots))
                + "; nothing was trained or charged. Accept more in its node.toml, on purpose, or "
                "give an account that was never charged a smaller promise (voile budget open "
                "--again)",
                to_others=_elsewhere(name),
            )


def _elsewhere(name: str) -> str:
    """What a server is told: other accounts of a party are no business of a federation's."""
    return (
        f"{name!r} takes no part: with what its ledger has promised elsewhere, this is more than "
        "it accepts; its own log says what; nothing was trained or charged"
    )


def _periods(root: AccountNode) -> int:
    return root.balance.period + 1


def _as_written(figure: float) -> Fraction:
    """The decimal that somebody wrote: three times 1e-5 is 3e-5, and no more."""
    return Fraction(repr(figure))


def _line(root: AccountNode) -> str:
    account, periods = root.account, _periods(root)
    times = "" if periods == 1 else f", {periods} periods"
    return f"{account.name!r} (ε = {account.epsilon:g}, δ = {account.delta:g}{times})"
