"""The frozen rule of private statistics, read once from `rule.toml`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Final, Self, get_type_hints

from voile.core.toml_text import parse_toml


@dataclass(frozen=True)
class SplitRule:
    calibration: float
    tables: float


@dataclass(frozen=True)
class BinRule:
    per_root: float
    least: int
    most: int
    fine_per_bin: int
    fine_least: int
    fine_most: int
    long_tail: float
    tail_scale: float
    least_mass: float
    levels_most: int
    levels_share: float
    deviations: float
    count_floor: float
    rate_prior: float


@dataclass(frozen=True)
class MomentRule:
    rate_clip: float
    count_weight_least: float
    gram_factor: float
    gram_least: float
    gram_most: float


@dataclass(frozen=True)
class TargetRule:
    steps: int
    square_weight: float
    number_gram_factor: float
    number_variance_cap: float
    slope_deviation: float
    slope_most: float
    number_residual_least: float
    ranks: int
    confidence_bins: int
    slope_steps: int


@dataclass(frozen=True)
class TailRule:
    few: float
    mass: float
    least: float
    parts: int


@dataclass(frozen=True)
class CutsRule:
    count_weight: float


@dataclass(frozen=True)
class SolveRule:
    rate_clip: float
    mass_floor: float
    eigenvalue_floor: float
    ridge_share: float
    walk_scale: float
    residual_floor: float
    tau_least: float
    tau_most: float
    tau_steps: int
    first_norm: float
    variance_prior: float
    variance_inflation: float
    scale_least: float
    scale_most: float
    variance_cap: float
    logit_least: float
    logit_most: float
    quantiles: int


@dataclass(frozen=True)
class CalibrationRule:
    bins: int
    wide_from: float
    wide_edges: list[float]
    wide_below: float
    wide_above: float
    least_deviation: float


@dataclass(frozen=True)
class SlopeRule:
    median: float
    deviation: float
    least: float
    most: float
    steps: int


@dataclass(frozen=True)
class SignalRule:
    least: float


@dataclass(frozen=True)
class StatisticsRule:
    """Every figure of the rule; `rule.toml` says what each is for."""

    version: int
    split: SplitRule
    bins: BinRule
    moments: MomentRule
    target: TargetRule
    tails: TailRule
    cuts: CutsRule
    solve: SolveRule
    calibration: CalibrationRule
    slope: SlopeRule
    signal: SignalRule

    @classmethod
    def loads(cls, text: str) -> Self:
        """A figure that is missing or not known is an error of the file."""
        found = parse_toml(text)
        sections: dict[str, Any] = get_type_hints(cls)
        sections.pop("version")
        for name, kind in sections.items():
            found[name] = kind(**found[name])
        return cls(**found)

    def digest(self, *sections: str) -> str:
        """SHA-256 (hex) of the figures of some sections: those that decide about a release."""
        figures = {name: asdict(getattr(self, name)) for name in sections}
        return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()


RULE: Final = StatisticsRule.loads(
    (files("voile.release.statistics") / "rule.toml").read_text(encoding="utf-8")
)
