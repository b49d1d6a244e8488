"""What stands on record as charged, as rehearsals: releases that no file names.

A record names the kind of a release in words, what was charged, and how neighbours differ. That is
enough to build such a release on invented records. Schemas, labels and models do not stand there,
and an event does not depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.attacks.figure_rehearsals import invented_rate
from voile.attacks.rehearsal import Rehearsal
from voile.attacks.release_rehearsals import rehearse_release
from voile.attacks.statistics_rehearsals import invented_share
from voile.attacks.user_rehearsals import invented_labels
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import Gaussian, Laplace, Parallel, PrivacyEvent, PureDp, Repeated, Zcdp
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.recommenders import LabelImportance, NoisyProfileOfUser, TopLabelsOfUser
from voile.records.audit_log import ReleaseRecord, decode_record
from voile.records.ledger.event_text import event_from
from voile.records.storage import Reader
from voile.records.vault import Place, Vault, open_vault_at
from voile.release import PUBLIC, NoisyValues, PrivateClusters, PrivateHistograms
from voile.release.charged import ChargedRelease

_AT_A_TIME: Final = 1000
_DELTA: Final = 1e-6
_LABELS: Final = 4
_SCHEMA: Final = Schema(
    "invented",
    (
        Feature("first", Numbers(0.0, 1.0)),
        Feature("second", Numbers(0, 9, whole=True)),
        Feature("third", Categories(("a", "b", "c"))),
    ),
)


@dataclass(frozen=True)
class ChargedTerms:
    """What records of one kind have in common: those that say the same are one claim.

    Args:
        what: how the record names the kind; without model and number.
        event: of one row.
        unit, relation: how neighbours differ.
        choice: of names, how many out of how many.
    """

    what: str
    event: PrivacyEvent
    unit: str
    relation: str
    choice: tuple[int, int] | None = None

    @property
    def protected(self) -> Protected:
        unit = ProtectedUnit(self.unit)
        columns = ("private",) if unit is ProtectedUnit.COLUMNS else ()
        return Protected(unit, Relation(self.relation), "invented", columns)

    @property
    def price(self) -> dict[str, Any]:
        """Of a release that costs the event."""
        match self.event:
            case Gaussian(multiplier):
                return {"epsilon": gaussian_epsilon(multiplier, _DELTA), "delta": _DELTA}
            case Zcdp(rho):
                return {"epsilon": zcdp_to_epsilon(rho, _DELTA), "delta": _DELTA}
            case Laplace(multiplier):
                return {"epsilon": 1 / multiplier, "delta": 0.0}
            case PureDp(epsilon):
                return {"epsilon": epsilon}
        raise InvalidInput(f"{self.event} is not the price of a release that is known here")


def charged_terms(books: Place) -> tuple[tuple[ChargedTerms, ...], tuple[str, ...]]:
    """What was charged as a release, each claim once; and subjects whose event is not on record."""
    found: dict[ChargedTerms, None] = {}
    unread: dict[str, None] = {}
    with open_vault_at(books, signing=None) as vault:
        for record in _releases(vault):
            if record.event is None or record.event.startswith("sha256:"):
                unread[_kind(record.subject)] = None
            else:
                found[_terms(record, record.event)] = None
    return tuple(found), tuple(unread)


def _releases(vault: Vault) -> Iterator[ReleaseRecord]:
    first, page = 0, True
    while page:

        def read(t: Reader, first: int = first) -> Sequence[bytes]:
            return vault.log.records(t, first=first, limit=_AT_A_TIME)

        contents = vault.storage.read_snapshot(read)
        decoded = map(decode_record, contents)
        yield from (each for each in decoded if isinstance(each, ReleaseRecord))
        first, page = first + len(contents), bool(contents)


def _terms(record: ReleaseRecord, event: str) -> ChargedTerms:
    said = re.match(r"subset selection of (\d+) out of (\d+)", record.mechanism)
    choice = (int(said[1]), int(said[2])) if said else None
    return ChargedTerms(
        _kind(record.subject), one_row(event_from(event)), record.unit, record.relation, choice
    )


def _kind(subject: str) -> str:
    return re.sub(r" of \d+ rows|at most \d+ ", "", subject.partition(", model ")[0]).strip()


def one_row(event: PrivacyEvent) -> PrivacyEvent:
    """Of one explained row, or one part: what a claim is about."""
    match event:
        case Repeated(inner) if isinstance(inner, Gaussian):
            return inner
        case Parallel(events):
            return one_row(events[0])
    return event


def rehearse_terms(terms: ChargedTerms) -> Rehearsal | None:
    """None for kinds that a record does not tell enough about."""
    build = next((made for words, made in _KINDS.items() if re.match(words, terms.what)), None)
    if build is None:
        return None
    try:
        release = build(terms)
    except (InvalidInput, ValueError):
        return None
    return rehearse_release(f"{terms.what} (on record)", release, terms.event)


# --- kinds ----------------------------------------------------------------------------------------


def _synthetic(terms: ChargedTerms) -> ChargedRelease:
    return PrivateHistograms(
        _SCHEMA.null_row[np.newaxis], _SCHEMA, protected=terms.protected, size=50, **terms.price
    )


def _clusters(terms: ChargedTerms) -> ChargedRelease:
    return PrivateClusters(
        _SCHEMA.null_row[np.newaxis], _SCHEMA, protected=terms.protected, count=2, **terms.price
    )


def _rate(terms: ChargedTerms) -> ChargedRelease:
    if not isinstance(terms.event, Gaussian):
        raise InvalidInput(f"{terms.event} is not the price of a rate")
    return invented_rate(
        terms.protected, noise_multiplier=terms.event.noise_multiplier, delta=_DELTA
    )


def _statistics(terms: ChargedTerms) -> ChargedRelease:
    if not isinstance(terms.event, Zcdp):
        raise InvalidInput(f"{terms.event} is not the price of private statistics")
    return invented_share(terms.what, terms.protected.relation, terms.event.rho, delta=_DELTA)


def _declared(terms: ChargedTerms) -> ChargedRelease:
    protected = terms.protected
    norm = Norm.L1 if isinstance(terms.event, Laplace) else Norm.L2
    declared = Sensitivity(value=1.0, norm=norm, unit=protected.unit, relation=protected.relation)
    return NoisyValues(
        declared,
        protected=protected,
        feature_names=("value",),
        name="invented",
        model="invented",
        **terms.price,
    )


def _about_users(kind: Any, **more: Any) -> Callable[[ChargedTerms], ChargedRelease]:
    def build(terms: ChargedTerms) -> ChargedRelease:
        chosen = terms.choice or (1, _LABELS)
        named = {"k": chosen[0]} if kind is TopLabelsOfUser else {}
        made: ChargedRelease = kind(
            invented_labels(chosen[1]),
            protected=terms.protected,
            origins=[PUBLIC],
            model="invented",
            **terms.price,
            **named,
            **more,
        )
        return made

    return build


_KINDS: Final[Mapping[str, Callable[[ChargedTerms], ChargedRelease]]] = {
    "synthetic background": _synthetic,
    "clusters of features": _clusters,
    "contribution rate": _rate,
    "(fine tables|centred moments|calibration table)$": _statistics,
    "importance of .* of the history$": _about_users(LabelImportance, users=2),
    "noisy .* of the history$": _about_users(NoisyProfileOfUser),
    "top .* of the history$": _about_users(TopLabelsOfUser),
    "noisy ": _declared,
}
"""How a subject on record begins, and what is built from its terms; of two that fit, the first."""
