"""The files of a federation, by whom they belong to. Paths in each are relative to the file.

federation.toml       public, and the same for everybody: what all parties have agreed on
server.toml           the server's: where results go, and rows that nobody protects
nodes/NAME/node.toml  stays with the party: its data, its books, and what it accepts
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from voile.app.commands.fields import RelationKey
from voile.app.federate.kinds import DEFAULT, GUIDED, KINDS
from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.federation.aggregators import AGGREGATORS, MEAN
from voile.federation.secure_aggregation import (
    ActiveServer,
    HonestButCurious,
    ThreatModel,
    sparse_for,
)

Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^/\\\x00-\x1f]+$")]


class _ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class PartySection(_ConfigSection):
    """A party that trains on its own rows.

    Args:
        rows: how many it has; public, and checked by the party itself.
        key: what it signs its log with; its name is the origin of that log.
        epsilon: that it has declared for its own rows; that of `[privacy]` if left out.
    """

    name: Name
    rows: Count
    key: str
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class HeldOut(_ConfigSection):
    """Rows that are listed as unprotected: figures of the report are measured on them."""

    name: Name
    data: Path


class SingleClient(_ConfigSection):
    """A party, where all of a federation stood in one file."""

    name: Name
    data: Path
    rows: Count


class SinglePrivacy(_ConfigSection):
    """The total that is promised for each row of each client, black box and surrogate together.

    Sizes are public under both relations that can be chosen here.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    relation: RelationKey = Relation.BLANK_ONE

    @model_validator(mode="after")
    def _sizes_are_public(self) -> Self:
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                "sizes are public here, so the relation cannot be 'add or remove one'; use "
                "'zero-out' or 'replace one'"
            )
        return self


class Privacy(SinglePrivacy):
    """The same, with what came later than federations in one file.

    Args:
        columns: private ones, where all others are public: then these columns of a row are
            protected, and not the row, and the parties' files must be Parquet.
        members_count: the part of epsilon that each party may spend on releasing how many of its
            rows an attacker would take for members (`voile assess --count-members`).
        records_per_person: how many rows of all parties together belong to one person at most, if
            the parties declare that; nobody checks it.
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    members_count: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    records_per_person: Annotated[int, Field(strict=True, ge=1)] | None = None


class TrainingSection(_ConfigSection):
    """How much is trained. What is left out follows from the public sizes.

    Args:
        rounds: of each of the two stages.
        participations: in how many rounds of a stage a client takes part at most; its own ledger
            sees to it. All rounds, if left out.
        hidden: widths of the hidden layers, of black box and surrogate; a default for each if left
            out.
        aggregator: how the server makes one update of the parties': "mean", weighted by declared
            sizes; "adam" or "yogi" steps with it; or one that withstands faulty parties: "median",
            "trimmed mean", "krum", "centred clipping".
    """

    rounds: Count = 10
    participations: Count | None = None
    hidden: tuple[Count, ...] | None = None
    aggregator: str = MEAN

    @field_validator("aggregator")
    @classmethod
    def _aggregator_is_known(cls, name: str) -> str:
        chosen(AGGREGATORS, name)
        return name

    @model_validator(mode="after")
    def _cap_fits(self) -> Self:
        if self.participations is not None and self.participations > self.rounds:
            raise ValueError(
                f"participations ({self.participations}) cannot exceed rounds ({self.rounds})"
            )
        return self


class SingleTraining(TrainingSection):
    """The same with the server's part, where all of a federation stood in one file."""

    distillation_steps: Count | None = None


class AssumedServer(StrEnum):
    """What a secure sum protects single updates from."""

    ACTIVE = "active"
    CURIOUS = "honest but curious"


class SecureSumSection(_ConfigSection):
    """Against whom sums are kept secret; see docs/secure-sum.md.

    Args:
        server: what it may do.
        colluders: how many parties at most work for it.
        threshold: how many parties survive a round at least; the smallest sensible one if left
            out.
        dropouts: where everybody shares masks with a few neighbours only, how many may fall out of
            a round; for many parties and a server that is honest but curious.
    """

    server: AssumedServer = AssumedServer.ACTIVE
    colluders: Count = 1
    threshold: Count | None = None
    dropouts: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _sparse_against_the_curious(self) -> Self:
        if self.dropouts is not None and self.server is AssumedServer.ACTIVE:
            raise ValueError(
                "dropouts need a sparse graph of neighbours, which an active server could choose: "
                'leave `dropouts` out, or set server = "honest but curious"'
            )
        return self

    def model(self, asked: int) -> ThreatModel:
        """For so many parties in a round."""
        if self.server is AssumedServer.ACTIVE:
            return ActiveServer(self.colluders, self.threshold)
        if self.dropouts is None:
            return HonestButCurious(self.colluders, self.threshold)
        graph = sparse_for(asked, colluders=self.colluders, dropouts=self.dropouts)
        return HonestButCurious(self.colluders, self.threshold, graph)


class FederationFile(_ConfigSection):
    """What all parties have agreed on.

    Args:
        name: label of the federation and of the version of its data.
        pipeline: what is trained.
        schema_file: the public description of records: a schema, TOML, where they are tables.
        options: of the pipeline, where it has some.
        secure: whether the server learns sums of updates only.
        secure_sum: against whom, where it does.
        server_key: what the server signs its log with, and its messages of a secure sum.
    """

    name: Name
    pipeline: str = DEFAULT
    schema_file: Annotated[Path, Field(alias="schema")]
    secure: bool = False
    server_key: str | None = None
    privacy: Privacy
    training: TrainingSection = TrainingSection()
    secure_sum: SecureSumSection = SecureSumSection()
    options: dict[str, Any] = Field(default_factory=dict)
    parties: Annotated[tuple[PartySection, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        _check_names([party.name for party in self.parties])
        return self

    @model_validator(mode="after")
    def _columns_or_rows(self) -> Self:
        guided = self.pipeline == GUIDED
        if guided and self.privacy.columns is None:
            raise ValueError(
                f"{GUIDED!r} protects columns: name them in [privacy], columns = [...]"
            )
        if not guided and self.privacy.columns is not None:
            raise ValueError(f"columns are protected by the pipeline {GUIDED!r} only")
        if not guided and any(party.epsilon is not None for party in self.parties):
            raise ValueError(f"parties have an epsilon of their own with {GUIDED!r} only")
        return self

    @model_validator(mode="after")
    def _secure_or_not(self) -> Self:
        if "secure_sum" in self.model_fields_set and not self.secure:
            raise ValueError(
                "[secure_sum] has no effect alone: add `secure = true` above the tables"
            )
        if self.secure and self.server_key is None:
            raise ValueError("a secure sum needs server_key, the key in the server's policy")
        return self

    @field_validator("pipeline")
    @classmethod
    def _is_known(cls, name: str) -> str:
        chosen(KINDS, name)
        return name


Address = Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}$")]
"""Host and port."""


class ServerLinkSection(_ConfigSection):
    """How the server reaches its SuperLink, where parties are on other machines.

    Args:
        root_certificates: of whoever signed the SuperLink's certificate, PEM.
        secret: file with what the SuperLink was started with for whoever runs its apps.
        deadline: seconds for one answer of a round; left out: ten minutes, or three times the
            slowest answer so far.
    """

    root_certificates: Path
    secret: Path
    deadline: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class NodeLinkSection(_ConfigSection):
    """How a party reaches the SuperLink.

    Args:
        address: host and port, as its certificate names it.
        root_certificates: of whoever signed that certificate, PEM.
        key: what the SuperLink knows the party by; made if it is missing.
    """

    address: Address
    root_certificates: Path
    key: Path = Path("flower.key")


class ServerFile(_ConfigSection):
    """What belongs to the server.

    Args:
        output: folder of the run; what may be shown lies in `artefact` inside.
        held_out: rows that are listed as unprotected; most pipelines need some.
        reference: public rows that free interventional explanations are measured against; drawn
            from the schema if left out.
        distillation_steps: of the fast explainer, which is learned from the surrogate alone.
        superlink: where parties are on other machines.
        stability_runs: how often a model is trained again on invented rows, to estimate how stable
            explanations are; 0 for not at all.
    """

    output: Path = Path("output")
    held_out: tuple[HeldOut, ...] = ()
    reference: Path | None = None
    distillation_steps: Count = 3_000
    superlink: ServerLinkSection | None = None
    stability_runs: Annotated[int, Field(ge=0, le=100)] = 3

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        _check_names([each.name for each in self.held_out])
        return self


class AcceptsSection(_ConfigSection):
    """The most that a party promises away; and, if stated, the one agreement that it accepts, and
    the columns that it is enough to protect."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    agreement: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    columns: tuple[str, ...] = ()


class NodeFile(_ConfigSection):
    """What stays with a party: its name, its rows, and what it accepts. Its books lie beside it.

    Args:
        data: its rows; None if they are handed over in Python.
        federation: its own copy of what all have agreed on, for a party on a machine of its own.
        superlink: how it reaches the server from there.
    """

    name: Name
    data: Path | None = None
    accepts: AcceptsSection
    federation: Path | None = None
    superlink: NodeLinkSection | None = None

    @property
    def table(self) -> Path:
        """The file with its rows."""
        if self.data is None:
            raise InvalidInput(
                f'the node.toml of {self.name!r} names no file with its rows: add data = "...", '
                "or hand the rows over in Python (voile.federate)"
            )
        return self.data


class SingleFile(_ConfigSection):
    """All of it in one file, as an earlier version had it; read to be split."""

    name: Name
    schema_file: Annotated[Path, Field(alias="schema")]
    output: Path = Path("output")
    privacy: SinglePrivacy
    training: SingleTraining = SingleTraining()
    clients: Annotated[tuple[SingleClient, ...], Field(min_length=1)]
    held_out: Annotated[tuple[HeldOut, ...], Field(min_length=1)]
    reference: Path | None = None


def _check_names(names: list[str]) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"names must differ, found twice: {repeated}")
    if "server" in names:
        raise ValueError("no party may be called 'server', which is the name of the server")
