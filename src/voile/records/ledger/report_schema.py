"""The JSON Schema of a budget report, published with the documentation.

Compatibility promise: a format keeps its name, fields and meaning; a change is a new name.
"""

from __future__ import annotations

from typing import Any, Final

from voile.records.ledger.alerts import THRESHOLDS, Risk

FORMAT: Final = "voile budget report v1"

_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_PERHAPS: Final = {"type": ["number", "null"], "minimum": 0}
_RISK: Final = {"enum": [risk.value for risk in Risk]}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": FORMAT,
    **_object(
        format={"const": FORMAT},
        account=_TEXT,
        root=_TEXT,
        dataset=_TEXT,
        unit=_TEXT,
        relation=_TEXT,
        epsilon=_NUMBER,
        delta=_NUMBER,
        composition=_TEXT,
        children={"enum": ["sequential", "parallel"]},
        period={"type": "integer", "minimum": 0},
        time=_NUMBER,
        charges={"type": "integer", "minimum": 0},
        consumed=_SHARE,
        epsilon_spent=_PERHAPS,
        basic_epsilon_spent=_PERHAPS,
        remaining=_object(
            account=_TEXT, share=_SHARE, available=_SHARE, limited_by=_TEXT, epsilon_spent=_PERHAPS
        ),
        risk=_RISK,
        lifetime=_object(
            periods={"type": "integer", "minimum": 1},
            delta=_NUMBER,
            epsilon=_PERHAPS,
            basic_epsilon=_PERHAPS,
            promised_epsilon=_NUMBER,
            promised_delta=_SHARE,
        ),
        forecast=_object(
            account=_TEXT,
            more={"type": "integer", "minimum": 0},
            hourly_rate=_NUMBER,
            hourly_share=_NUMBER,
            exhausted_at={"type": ["number", "null"]},
        ),
        alerts=_list(_object(threshold={"enum": list(THRESHOLDS)}, time=_NUMBER)),
        accounts_below=_list(_object(account=_TEXT, consumed=_SHARE, risk=_RISK)),
        assumptions=_list(_TEXT),
        advice=_list(_TEXT),
        curve=_list(_object(time=_NUMBER, share=_SHARE, act=_TEXT)),
        findings={
            "oneOf": [
                {"type": "null"},
                _list(
                    _object(rule=_TEXT, callers=_list(_TEXT), charges=_list(_TEXT), detail=_TEXT)
                ),
            ]
        },
    ),
}
"""JSON Schema of `BudgetReport.to_dict`."""
