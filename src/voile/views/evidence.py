"""Evidence as pages, and model cards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from voile.core.guarantee import Guarantee
from voile.views.html import render
from voile.views.text import guarantee_in_words, rounded_up

if TYPE_CHECKING:
    from voile.app.evidence.decisions import DecisionPage
    from voile.app.evidence.handler import EvidencePage, EvidenceResult, RecordsPage
    from voile.app.evidence.models import ModelFacts

_TO_STATE = "For you to state: ______"


def evidence_html(result: EvidenceResult) -> str:
    """The index: documents, decisions, warnings, and where the log stands."""
    return render("evidence.html", result=result)


def document_html(page: EvidencePage) -> str:
    """One document."""
    return render("evidence_document.html", document=page.document)


def decision_html(page: DecisionPage) -> str:
    """What one person may see about one decision."""
    return render("decision.html", page=page, described=page.described)


def records_html(page: RecordsPage) -> str:
    """The records that lines link to, each with an anchor."""
    return render("evidence_records.html", page=page)


def model_card(model: ModelFacts) -> str:
    """Markdown with a YAML header, in the order that model hubs expect."""
    head = "\n".join(f"{name}: {json.dumps(each)}" for name, each in _header(model).items())
    parts = [f"---\n{head}\n---", f"# Model card: {model.name}", *_about(model)]
    parts += [_section("Intended use", [_TO_STATE]), _section("Out-of-scope use", [_TO_STATE])]
    parts += [_data(model), _figures(model), _promises(model), _section("Limits", _limits(model))]
    parts.append(_section("Contact", [_TO_STATE]))
    return "\n\n".join(parts) + "\n"


def _header(model: ModelFacts) -> dict[str, Any]:
    """JSON values are YAML values."""
    results = [
        {"name": each["name"], "value": each["figure"], "measured_on": each["measured_on"]}
        for each in model.figures
    ]
    privacy = [
        {
            "epsilon": each.epsilon,
            "delta": each.delta,
            "unit": str(each.protected.unit),
            "relation": each.protected.relation.word,
            "dataset": each.protected.dataset,
        }
        for each in model.guarantees
    ]
    return {
        "library_name": "voile",
        "tags": [*(["tabular"] if model.schema is not None else []), "differential-privacy"],
        "model_name": model.name,
        "license": "for you to state",
        "datasets": [each.protected.dataset for each in model.guarantees],
        "metrics": results,
        "differential_privacy": privacy,
    }


def _section(title: str, lines: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines)


def _about(model: ModelFacts) -> list[str]:
    said = [f"- {name}: {value}" for name, value in model.training.items()]
    records = ", ".join(map(str, model.records)) or _elsewhere(model)
    return [
        _section(
            "Model",
            [f"- made by: `{model.made_by}`", *said, f"- records in the log: {records}"],
        )
    ]


def _elsewhere(model: ModelFacts) -> str:
    if not model.rounds:
        return "of another log"
    first, last = model.rounds[0], model.rounds[-1]
    return f"rounds from {first} to {last}; what was charged is in other logs"


def _data(model: ModelFacts) -> str:
    lines = [f"- rows: {model.rows}"] if model.rows is not None else []
    if model.schema is not None:
        names = ", ".join(f"`{each.name}`" for each in model.schema.features)
        lines.append(f"- inputs ({len(model.schema.features)}): {names}")
    return _section("Data", [*lines, f"- provenance: {_TO_STATE}"])


def _figures(model: ModelFacts) -> str:
    if not model.figures:
        return _section("How good it is", ["No figure was charged or measured."])
    rows = ["| figure | value | 95 % interval | measured on |", "| --- | ---: | --- | --- |"]
    for each in model.figures:
        bounds = f"{each['low']:.3f} to {each['high']:.3f}" if "low" in each else ""
        value = f"{each['figure']:.3f}"
        rows.append(f"| {each['name']} | {value} | {bounds} | {each['measured_on']} |")
    return _section("How good it is", rows)


def _promises(model: ModelFacts) -> str:
    lines = [line for each in model.guarantees for line in _promise(each)]
    if model.verdict:
        word = "inconclusive" if model.verdict == "blind" else model.verdict
        lines.append(f"- attacked by `voile assess`: {word} (record {model.attack})")
    else:
        lines.append("- attacked by `voile assess`: not yet")
    return _section("Privacy", lines)


def _promise(given: Guarantee) -> list[str]:
    epsilon, delta = rounded_up(given.epsilon), rounded_up(given.delta)
    return [
        f"- {guarantee_in_words(given)}",
        f"- ε = {epsilon}, δ = {delta} for {given.protected}; {given.mechanism}",
        f"- assumptions: {'; '.join(given.assumptions) or 'none'}",
    ]


def _limits(model: ModelFacts) -> list[str]:
    known = [f"- {line}" for line in model.alarms]
    return [*known, f"- {_TO_STATE}"]
