"""The figures of a report, read from an artefact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from voile.app.alarms import shown_name
from voile.app.artefact import Artefact
from voile.app.artefact_manifest import RECOMMENDER
from voile.core.description import Description
from voile.core.errors import Refused
from voile.core.explanation import Explanation
from voile.core.input_file import read_file
from voile.core.schema import Schema
from voile.core.schema.schema import draw_rows
from voile.federation import AnnouncedRound, Outcome
from voile.records.audit_log import RoundShownRecord, decode_record
from voile.records.audit_log.notes import VerifierKey
from voile.records.audit_log.publishing import RECORDS_FILE

SHOWN_ROWS: Final = 20


def quality(artefact: Artefact) -> list[tuple[str, float]]:
    """The last figure of each stage, and how well the fast explainer does, where there is one."""
    found = [
        (f"{name} of the {stage}", values[-1])
        for stage, figures in artefact.figures["rounds"].items()
        for name, values in figures.items()
        if values
    ]
    if (private := artefact.figures.get("contribution")) is not None:
        columns = ", ".join(private["columns"])
        found.append((f"contribution rate of {columns} on these rows", private["rate"]))
    quick = artefact.figures.get("distilled_explainer")
    if quick is None:
        return found
    cosine = quick["cosine_to_exact_values_of_the_surrogate"]
    values = "sampled" if quick.get("sampled") else "exact"
    what = f"cosine of the fast explainer to {values} values of the surrogate"
    return [*found, (what, cosine)]


_MEANING: Final = {
    "accuracy": "always the most frequent label",
    "AUC": "guessing",
    "expected calibration error": "always the frequencies of labels",
    "mean absolute error": "always the median",
    "log-loss": "always the frequencies of labels",
    "Brier score": "always the frequencies of labels",
}


def compared(artefact: Artefact) -> list[dict[str, Any]]:
    """Figures with intervals, and what they are compared with."""
    judged_models = artefact.figures.get("quality", {})
    return [
        {
            "linear_model": None,
            **judged,
            "what": f"{name} of the {shown_name(what, judged_models)}",
            "meaning": _MEANING.get(name, ""),
        }
        for what, found in judged_models.items()
        for name, judged in found["figures"].items()
    ]


def surrogate_says_nothing(artefact: Artefact) -> bool:
    """Whether explanations are those of the black box because the surrogate says nothing."""
    quality = artefact.figures.get("quality", {})
    constant: bool = quality.get("surrogate", {}).get("constant", False)
    return artefact.has_model and artefact.has_surrogate and constant


@dataclass(frozen=True)
class FeatureImportance:
    """How much features matter to a model, with what is known about its noise.

    Args:
        explanation: of public reference rows.
        deviations: by feature, how far a contribution typically is off for the noise in training;
            None if it was not estimated.
        over: which rows it is about, in words.
    """

    explanation: Explanation
    deviations: Mapping[str, float] | None
    over: str

    def describe(
        self,
        row: int | None = None,
        *,
        output: str | None = None,
        most: int | None = None,
        schema: Schema | None = None,
    ) -> Description:
        """What it says, as data for every view; with the estimates that it carries."""
        return self.explanation.describe(
            row, output=output, most=most, schema=schema, deviations=self.deviations
        )


def importance(artefact: Artefact) -> FeatureImportance | None:
    """Explanations of public reference rows: post-processing of the private artefact.

    None where it holds no model of rows.
    """
    from voile.attribution import shapley_explainer
    from voile.release import PostProcessed

    if artefact.importance is not None:
        return FeatureImportance(artefact.importance, None, "the rows of all parties, with noise")
    if artefact.additive is not None:
        # Over the background that was released with it; which rows are shown says nothing.
        rows = draw_rows(artefact.schema, SHOWN_ROWS, np.random.default_rng(0))
        over = f"{len(rows)} rows drawn from the schema, exact for the private model"
        return FeatureImportance(artefact.additive.explain(rows), None, over)
    if artefact.reference is None:
        return None
    rows = artefact.reference[:SHOWN_ROWS]
    over = f"{len(rows)} public reference rows, exact for the private model"
    if artefact.has_model:
        over += " (absent features are taken from reference rows)"
        explainer: Any = shapley_explainer(artefact.model, rows, schema=artefact.schema)
        name, model = "interventional Shapley values", artefact.model.digest
    else:
        explainer, name, model = artefact.explainer, "learned Shapley values", "surrogate"
    if artefact.guarantees:
        explainer = PostProcessed(explainer, [artefact.origin], model, name).draw
    explained = replace(explainer(rows), notes=("public reference rows",))
    shown = explained[:, :, -1] if explained.shape[2] == 2 else explained
    # Estimated for the black box, over reference rows: they say nothing about a surrogate.
    return FeatureImportance(shown, artefact.deviations if artefact.has_model else None, over)


def outcomes(artefact: Artefact) -> dict[str, list[dict[str, bool]]]:
    """For each stage its rounds; for each round who was asked, and whether the answer counted."""
    found: dict[str, list[dict[str, bool]]] = {}
    for row in artefact.history:
        rounds = found.setdefault(row.stage, [])
        while len(rounds) < row.round:
            rounds.append({})
        if row.outcome is not Outcome.DUPLICATE:
            rounds[row.round - 1][row.client] = row.outcome.counts
    return found


def readings(artefact: Artefact) -> list[tuple[str, Mapping[str, float]]]:
    """What the same noise amounts to, in words and figures."""
    found = artefact.statement["readings"]
    stages = [(f"{stage} alone", spent) for stage, spent in found["stages"].items()]
    return [
        ("jointly, by privacy-loss distributions", found["joint"]),
        ("as published: the sum over stages", found["published_sum"]),
        *stages,
    ]


def curves(artefact: Artefact) -> dict[str, list[float]]:
    """Figures of every round that are shares, by what they measure."""
    return {
        f"{name} of the {stage}": values
        for stage, figures in artefact.figures["rounds"].items()
        for name, values in figures.items()
        if values and np.max(np.abs(values)) <= 1
    }


def contradictory_rounds(artefact: Artefact) -> list[str]:
    """What parties' own logs say about rounds of a secure sum that differ between them."""
    secure = artefact.settings.get("secure_sum")
    if secure is None:
        return []
    logs = {
        party: read_file(artefact.log_folder(party) / RECORDS_FILE).splitlines()
        for party in artefact.settings["logs"]
    }
    return list(contradictions(logs, VerifierKey.parse(secure["server_key"])))


def how_to_use(artefact: Artefact) -> str:
    """The command that uses it; empty where it can only be read."""
    if RECOMMENDER in artefact.files:
        asked = "interactions.csv --user USER --database log.db"
        return f"voile recommend list {artefact.folder.name} {asked}"
    explains = artefact.has_model or artefact.has_surrogate
    return (
        f"voile explain {artefact.folder.name} rows.csv --output explanation.voile"
        if explains
        else ""
    )


# --- was everybody shown the same rounds? --------------------------------------------------------

_Where: TypeAlias = tuple[str, str, int]


def contradictions(logs: Mapping[str, Iterable[bytes]], server: VerifierKey) -> tuple[str, ...]:
    """Rounds for which logs hold different links, or links that do not hang together.

    Each link counts as far as the server signed it, so two of one round prove that it showed two
    histories; what it did not sign is told as such, and proves something about the log that holds
    it.

    Args:
        logs: the records of each party.
        server: the key that was agreed on.
    """
    shown: dict[_Where, dict[bytes, str]] = {}
    found = []
    for party, records in logs.items():
        for record in map(decode_record, records):
            if not isinstance(record, RoundShownRecord):
                continue
            if not _is_signed(record, server):
                found.append(f"{party} holds a round that the server did not sign")
                continue
            agreement, stage, number = record.agreement, record.stage, record.round
            shown.setdefault((agreement, stage, number), {}).setdefault(record.link, party)
            # What a round is chained to is what the server calls the link of the round before.
            before = shown.setdefault((agreement, stage, number - 1), {})
            before.setdefault(record.previous, party)
    for (_, stage, number), links in sorted(shown.items()):
        if len(links) > 1:
            found.append(f"round {number} of {stage!r} ({', '.join(sorted(links.values()))})")
    return tuple(found)


def _is_signed(record: RoundShownRecord, server: VerifierKey) -> bool:
    try:
        announced = AnnouncedRound(
            record.agreement,
            record.stage,
            record.round,
            record.previous.hex(),
            record.link.hex(),
            record.begun.hex(),
            bytes.fromhex(record.signature),
        )
        announced.verify(server.public)
    except (Refused, ValueError):
        return False
    return True
