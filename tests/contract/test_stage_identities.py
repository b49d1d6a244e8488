"""A run that was broken off is continued whatever classes are called: else its budget is lost.

`stored/stages.json` holds the agreement of a stage for every round protocol. It was written when
class names were spelled into it; nothing in the file may ever have to change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.federation.toys import START, stage
from voile.federation import (
    CoordinateMedian,
    FedAdam,
    FedAvg,
    Krum,
    PlainRound,
    RoundProtocol,
    SecureSum,
    TrimmedMean,
)
from voile.federation.aggregators import CentredClipping, FedYogi, LevelAvg, WholeSum
from voile.federation.secure_aggregation import ActiveServer, HonestButCurious, Sparse
from voile.federation.secure_aggregation.signed import SERVER
from voile.federation.secure_aggregation.threat_models import Complete
from voile.pipelines.trusted_averaging.protocol import Total, TrustedRound
from voile.pipelines.trusted_averaging.trust import DivergenceMeasure, TrustRule

SIZES = dict.fromkeys("abcdefghij", 40)
KEYS = {name: name[0].encode() * 32 for name in (*SIZES, SERVER)}
STORED: dict[str, str] = json.loads((Path(__file__).parent / "stored" / "stages.json").read_text())


def secret(model: Any, aggregator: Any) -> SecureSum:
    return SecureSum(model, KEYS, SIZES, aggregator)


CASES: dict[str, RoundProtocol] = {
    "plain": PlainRound(FedAvg()),
    "levels": PlainRound(LevelAvg((("a", 1.0), ("b", 2.5)))),
    "adam": PlainRound(FedAdam()),
    "yogi": PlainRound(FedYogi()),
    "median": PlainRound(CoordinateMedian()),
    "trimmed": PlainRound(TrimmedMean()),
    "krum": PlainRound(Krum(1)),
    "centred": PlainRound(CentredClipping()),
    "whole": PlainRound(WholeSum()),
    "whole, in secret": secret(ActiveServer(), WholeSum()),
    "curious": secret(HonestButCurious(colluders=2), FedAvg()),
    "sparse": secret(HonestButCurious(graph=Sparse(4, 3, 1)), FedAvg()),
    "active": secret(ActiveServer(threshold=4), FedAdam()),
    "trusted": TrustedRound(TrustRule(), 3),
    "trusted, in secret": TrustedRound(
        TrustRule(divergence=list(DivergenceMeasure)[-1]), 3, None, secret(ActiveServer(), Total())
    ),
}
PARTS = ("aggregator", "model", "rule")
KINDS = dict.fromkeys(
    [
        *(type(protocol) for protocol in CASES.values()),
        *(type(getattr(p, part)) for p in CASES.values() for part in PARTS if hasattr(p, part)),
        *(Total, Sparse, Complete, DivergenceMeasure),
    ]
)
each = pytest.mark.parametrize(("name", "protocol"), CASES.items(), ids=CASES)


def identity(protocol: RoundProtocol) -> str:
    return stage(protocol=protocol).agreement(SIZES, START, {}, "agreed")


@each
def test_an_agreement_is_what_it_was(name: str, protocol: RoundProtocol) -> None:
    assert identity(protocol) == STORED[name]


@pytest.mark.parametrize("kind", KINDS)
def test_another_class_name_makes_no_other_agreement(kind: type) -> None:
    name = kind.__qualname__
    kind.__qualname__ = kind.__name__ = "Renamed"
    try:
        assert {each: identity(protocol) for each, protocol in CASES.items()} == STORED
    finally:
        kind.__qualname__ = kind.__name__ = name
