"""What requests hold. Errors name fields of ours, and never what stood in them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from voile.core.guarantee import ProtectedUnit, Relation
from voile.core.transparency import Level, Role

Cell = StrictBool | StrictInt | StrictFloat | StrictStr | None
Columns = dict[StrictStr, list[Cell]]
Records = list[dict[StrictStr, Cell]]
Matrix = list[list[Cell]]
Text = Annotated[StrictStr, Field(min_length=1, max_length=200)]
"""Of a purpose, a reason or a name."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowsBody(_Body):
    """Rows and how they are paid for."""

    rows: Annotated[
        Columns | Records | Matrix,
        Field(
            description="Columns by name, a list of rows by name, or a list of rows in the order "
            "of the schema.",
            examples=[{"income": [3], "debt": [6], "employed": ["no"]}],
        ),
    ]
    account: Annotated[
        Text | None,
        Field(description="Who pays: name or public name of an account. Not for free releases."),
    ] = None
    purpose: Annotated[Text, Field(description="Why you ask; recorded in the ledger.")] = (
        "explanation"
    )
    redraw: Annotated[
        StrictBool, Field(description="Pay for new noise, even if this was answered before.")
    ] = False
    coarser: Annotated[
        StrictBool, Field(description="Accept a coarser level, if a rule offers one.")
    ] = False


class ExplanationBody(RowsBody):
    """One question."""

    release: Annotated[Text, Field(description="Name of a release of the workspace.")]
    saved: Annotated[
        StrictBool,
        Field(description="Add each entry bit for bit, so that its receipt can be verified."),
    ] = False


class BatchBody(_Body):
    """Several questions to one release; each has an outcome of its own."""

    release: Text
    requests: Annotated[list[RowsBody], Field(min_length=1, max_length=256)]


class PreviewBody(_Body):
    """What would rows, or so many rows, cost?"""

    release: Text
    rows: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | Columns | Records | Matrix = 1
    account: Text | None = None


class RecommendationBody(_Body):
    """What to recommend to a user, from her own history."""

    recommender: Annotated[Text, Field(description="Name of a recommender of the workspace.")]
    history: Annotated[
        list[Cell],
        Field(
            max_length=100_000,
            description="Items that the user has touched, by their identifiers in the catalogue; "
            "others add nothing.",
            examples=[["17", "42"]],
        ),
    ]
    group_by: Annotated[
        Text,
        Field(description="Reasons: items (of the history), scores (none), or a kind of labels."),
    ] = "items"
    count: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    saved: Annotated[
        StrictBool,
        Field(description="Add the entry bit for bit, so that its receipt can be verified."),
    ] = False


class InstancesBody(BaseModel):
    """A request of KServe's V1 protocol; other members are ignored, as that protocol says.

    Its documentation calls rows `instances` or `inputs`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    instances: Annotated[
        Records | Matrix, Field(validation_alias=AliasChoices("instances", "inputs"))
    ]


class TensorBody(BaseModel):
    """A tensor of the Open Inference Protocol."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Text
    shape: Annotated[
        list[Annotated[int, Field(strict=True, ge=0)]], Field(min_length=1, max_length=2)
    ]
    datatype: Text
    data: list[Cell] | list[list[Cell]]


class WantedOutput(BaseModel):
    """An output that is asked for."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Text


class InferenceBody(BaseModel):
    """A request of the Open Inference Protocol, version 2."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    inputs: Annotated[list[TensorBody], Field(min_length=1, max_length=4096)]
    outputs: list[WantedOutput] | None = None


class OpeningBody(_Body):
    """An account to open."""

    name: Text
    dataset: Text
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
    unit: ProtectedUnit = ProtectedUnit.ROW
    relation: Relation = Relation.BLANK_ONE
    columns: Annotated[list[Text], Field(max_length=64)] = []
    parent: Text | None = None
    parallel: StrictBool = False


class ChargeBody(_Body):
    """A charge that somebody asks to be approved: the event as a refusal shows it."""

    event: Annotated[dict[str, Any], Field(max_length=8)]
    purpose: Text


class RenewalBody(_Body):
    """A new period of an account."""

    reason: Text


class KeyBody(_Body):
    """A key to issue."""

    caller: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@ -]{0,63}$")]
    duties: Annotated[list[Text], Field(min_length=1, max_length=6)]
    accounts: Annotated[list[Text], Field(max_length=100)] = []
    roles: Annotated[list[Role], Field(max_length=4)] = [Role.ANALYST]
    level: Level = Level.DETAILED
    rate: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 600
    days: Annotated[float, Field(gt=0, le=3660, allow_inf_nan=False)] = 90.0
