"""What an explanation would cost, and how precise it would be, before anybody pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from voile.app.explain.walk import ANSWERED_BEFORE
from voile.app.explain_rows import PreviewResult
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.core.rendering import render_html
from voile.models import Box, DeclaredOutputs, Simplex
from voile.python.words import in_python

OFFERED: Final = (0.1, 0.3, 1.0)
"""The epsilons of a price list."""
_DROWNED: Final = 0.5
"""Of the width of the output: contributions are seldom larger."""


@dataclass(frozen=True)
class CallPrice:
    """What one call would cost and be like; nothing was charged.

    Everything is about the whole call, however many rows it explains.

    Args:
        result: as the handler found it.
        part: whose rows are protected.
        epsilon: what was asked for; None if it follows from the noise.
    """

    view: ClassVar[str] = "price of a call"

    result: PreviewResult
    part: RowPart
    epsilon: float | None = None

    @property
    def cost(self) -> float:
        """The epsilon of the whole call, or of each record where records pay for themselves."""
        found = self.result.preview
        return 0.0 if found.event is None else found.guarantees[0].epsilon

    @property
    def half_width(self) -> float | None:
        """With 95 % a contribution is within ± this of the exact one."""
        return self.result.preview.half_width

    @property
    def share(self) -> float:
        """Of the budget, between 0 and 1; 0 if it is free."""
        use = self.result.use
        return 0.0 if use is None or self.answered_before else use.share

    @property
    def answered_before(self) -> bool:
        """Whether this very question was answered: the stored answer is free."""
        return ANSWERED_BEFORE in self.result.preview.remarks

    @property
    def fits(self) -> bool:
        """Whether the budget covers it."""
        use = self.result.use
        return use is None or self.answered_before or (not use.refused_because and use.share <= 1)

    def __str__(self) -> str:
        return "\n".join([self._price(), *self._precision(), *self._remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render_html(self)

    def _price(self) -> str:
        what = self._what()
        if self.result.preview.event is None:
            return f"{what}: costs nothing"
        if self.answered_before:
            return f"{what}: answered before, so the same answer is free"
        use, delta = self.result.use, self.result.preview.guarantees[0].delta
        each = " for each record" if self.part is RowPart.EXPLAINED else ""
        price = f"{what}: ε = {self.cost:.3g}, δ = {delta:.3g}{each}"
        if use is None:
            return price
        if not self.fits:
            reason = f": {use.refused_because}" if use.refused_because else ""
            return f"{price}; the budget {use.account!r} does not cover it{reason}"
        return f"{price}; {self.share:.1%} of the budget {use.account!r}"

    def _what(self) -> str:
        count = self.result.count
        if self.part is RowPart.POPULATION:
            return f"Importance over {count:,} protected rows"
        return "1 row" if count == 1 else f"{count:,} rows together"

    def _precision(self) -> list[str]:
        if self.half_width is None:
            return [self.result.preview.accuracy]
        what = "an importance" if self.part is RowPart.POPULATION else "a contribution"
        line = f"With 95 % {what} is within ± {self.half_width:.2g} of the exact one"
        return [f"{line}; {range_in_words(self.result.outputs)}", *self._drowned()]

    def _drowned(self) -> list[str]:
        width = width_of(self.result.outputs)
        if self.half_width is None or width is None or self.half_width < _DROWNED * width:
            return []
        ways = "a larger epsilon" if self.result.count == 1 else "fewer rows or a larger epsilon"
        return [f"That is mostly noise: ask for {ways}, or protect more rows together"]

    def _remarks(self) -> list[str]:
        """Without what is said above."""
        said = ("fits: ", "would be refused: ", ANSWERED_BEFORE)
        rest = (each for each in self.result.preview.remarks if not each.startswith(said))
        return [in_python(each) for each in rest]


@dataclass(frozen=True)
class PriceList:
    """What several epsilons would give, for one call."""

    prices: tuple[CallPrice, ...]

    def __str__(self) -> str:
        first = self.prices[0]
        records = " for each record" if first.part is RowPart.EXPLAINED else ""
        what = "accuracy" if first.half_width is None else "a contribution is within (95 %)"
        head = (f"epsilon{records}", what, "of the budget")
        lines = [head, *map(_line, self.prices)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
        table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*("  " + line for line in table), range_in_words(first.result.outputs)])


def _line(price: CallPrice) -> tuple[str, str, str]:
    width = price.half_width
    near = price.result.preview.accuracy if width is None else f"± {width:.2g}"
    if price.answered_before:
        return f"{price.epsilon:g}", near, "free: answered before"
    share = f"{price.share:.1%}" if price.fits else f"{price.share:.0%}: does not fit"
    return f"{price.epsilon:g}", near, share


class UnstatedPrice(Refused):
    """Nobody said what the call may cost; the message is a price list.

    Args:
        prices: the list, as data.
    """

    def __init__(self, prices: PriceList) -> None:
        self.prices = prices
        super().__init__(
            "nothing was charged: say what this call may cost, epsilon= (or noise=).\n"
            f"{_for(prices)}\n{prices}"
        )


def _for(prices: PriceList) -> str:
    what = prices.prices[0]._what()
    return f"For {what[0].lower()}{what[1:]}:"


def range_in_words(outputs: DeclaredOutputs | None) -> str:
    """Where the output lies, to compare noise with."""
    if isinstance(outputs, Simplex):
        return "the outputs are probabilities, from 0 to 1"
    if isinstance(outputs, Box) and not isinstance(outputs.lower, tuple | Sequence):
        return f"the output goes from {outputs.lower:g} to {outputs.upper:g}"
    return "the outputs lie in the declared range"


def width_of(outputs: DeclaredOutputs | None) -> float | None:
    """Of one output."""
    return None if outputs is None else outputs.selected((0,)).width(1)
