"""What would fit, where one answer takes more than the whole budget of its account.

A renewed budget would not cover it either, so the advice is about the release: its noise or its
epsilon. What a release costs follows from public facts alone, and so does this advice.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from voile.app.explain.building import build_release
from voile.app.explain.inputs import ExplanationInputs
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import RowPart
from voile.privacy.accounting.measures import fits
from voile.privacy.mechanisms.parameters import WeakPrivacyWarning
from voile.records.ledger import Account
from voile.release import Preview, Release

_WHERE: Final = "(under [releases.NAME] in voile.toml, or --noise and --epsilon of `voile explain`)"
_PROPOSED: Final = [float(f"{digit}e{power}") for power in range(-3, 1) for digit in (1, 2, 5)]


@dataclass(frozen=True)
class Affordability:
    """Whether an account could ever pay for an answer.

    Args:
        inputs: what the release was built from.
        account: who pays; None where nothing has to be paid.
        release: what is asked for.
        rows: how many rows are explained together.
    """

    inputs: ExplanationInputs
    account: Account | None
    release: Release[Explanation]
    rows: int

    @property
    def never(self) -> bool:
        """Whether the answer takes more than the whole budget."""
        return not self._covered(self.release)

    @property
    def advice(self) -> str:
        """What to ask for instead."""
        spec, found = self.inputs.spec, []
        by_name = (
            spec.top is not None and spec.protect.is_explained
        )  # names are drawn without noise
        for key in ("epsilon",) if by_name else ("noise", "epsilon"):
            # Noise as wide as the outputs would tell nothing.
            figures = [f for f in _PROPOSED if f < 1] if key == "noise" else _PROPOSED[::-1]
            figure = next((each for each in figures if self._would_fit(key, each)), None)
            found += [] if figure is None else [f"{key} = {figure:g}"]
        if not found:
            return "open an account that promises a larger epsilon"
        return f"it would fit with {' or '.join(found)} of one release"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say it with the refusal."""
        try:
            yield
        except BudgetExceeded as error:
            if not self.never:
                raise
            raise BudgetExceeded(
                f"{error}: {self.advice} {_WHERE}",
                remaining=error.remaining,
                requested=error.requested,
            ) from error

    def told(self, preview: Preview) -> Preview:
        """Say it with a preview."""
        if not self.never:
            return preview
        return replace(preview, remarks=(*preview.remarks, f"{self.advice} {_WHERE}"))

    def _would_fit(self, key: str, figure: float) -> bool:
        spec = self.inputs.spec.model_copy(update={"noise": None, "epsilon": None, key: figure})
        changed = replace(self.inputs, spec=spec)
        with warnings.catch_warnings():  # what is only tried promises nothing to anybody
            warnings.simplefilter("ignore", WeakPrivacyWarning)
            try:
                return self._covered(build_release(changed, self.account, self.rows))
            except InvalidInput:  # a figure beyond what can be drawn
                return False

    def _covered(self, release: Release[Explanation]) -> bool:
        account = self.account
        if account is None or account.measure is None:
            return True
        event = release.cost(1 if release.part is RowPart.EXPLAINED else self.rows)
        if event is None:
            return True
        return fits(account.measure.cost(event), account.budgets)
