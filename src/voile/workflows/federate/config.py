"""The one file that people write for a federation: whose rows, what promise, how much training.

Everything in it is public: it may be shown to all parties. Paths are relative to the file.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from voile.core.guarantee import Relation
from voile.workflows.toml_file import TomlFile

Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^/\\\x00-\x1f]+$")]


class _ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class ClientSection(_ConfigSection):
    """A party that trains on its own rows.

    Args:
        name: of the party.
        data: CSV or Parquet, on the party's own disk.
        rows: how many rows it has; public, and checked by the party itself.
    """

    name: Name
    data: Path
    rows: Count


class HeldOut(_ConfigSection):
    """Rows that are listed as unprotected: figures of the report are measured on them."""

    name: Name
    data: Path


class Privacy(_ConfigSection):
    """The total that is promised for each row of each client, black box and surrogate together.

    Sizes are public under both relations that can be chosen here.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    relation: Relation = Relation.BLANK_ONE

    @model_validator(mode="after")
    def _sizes_are_public(self) -> Self:
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError("sizes are public here, so the relation cannot be 'add or remove one'")
        return self


class TrainingSection(_ConfigSection):
    """How much is trained. What is left out follows from the public sizes.

    Args:
        rounds: of each of the two stages.
        participations: in how many rounds of a stage a client takes part at most; its own ledger
            sees to it. All rounds, if left out.
        hidden: widths of the hidden layers, of black box and surrogate; a default for each if left
            out.
        distillation_steps: of the fast explainer, which is learned from the surrogate alone.
    """

    rounds: Count = 10
    participations: Count | None = None
    hidden: tuple[Count, ...] | None = None
    distillation_steps: Count = 3_000

    @model_validator(mode="after")
    def _cap_fits(self) -> Self:
        if self.participations is not None and self.participations > self.rounds:
            raise ValueError(
                f"participations ({self.participations}) cannot exceed rounds ({self.rounds})"
            )
        return self


Party = TypeVar("Party", ClientSection, HeldOut)


class FederationConfig(_ConfigSection):
    """What `voile federate` reads.

    Args:
        name: label of the federation and of the version of its data.
        schema_file: the public schema, TOML.
        output: folder of the run; what may be shown lies in `artefact` inside.
        reference: public rows that free interventional explanations are measured against; drawn
            from the schema if left out.
    """

    name: Name
    schema_file: Annotated[Path, Field(alias="schema")]
    output: Path = Path("output")
    privacy: Privacy
    training: TrainingSection = TrainingSection()
    clients: Annotated[tuple[ClientSection, ...], Field(min_length=1)]
    held_out: Annotated[tuple[HeldOut, ...], Field(min_length=1)]
    reference: Path | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        parties: tuple[ClientSection | HeldOut, ...] = (*self.clients, *self.held_out)
        names = Counter(party.name for party in parties)
        repeated = sorted(name for name, times in names.items() if times > 1)
        if repeated:
            raise ValueError(f"parties must have different names, found twice: {repeated}")
        if "server" in names:
            raise ValueError("no party may be called 'server', which is the name of the server")
        return self


def read_config(path: Path) -> FederationConfig:
    """Read and check a config; an error names the line and the field."""
    return _beside(TomlFile.read(path).checked(FederationConfig), path.parent)


def _beside(config: FederationConfig, folder: Path) -> FederationConfig:
    """Paths relative to the file, not to where the command happens to be run."""
    return config.model_copy(
        update={
            "schema_file": folder / config.schema_file,
            "output": folder / config.output,
            "reference": None if config.reference is None else folder / config.reference,
            "clients": tuple(_moved(party, folder) for party in config.clients),
            "held_out": tuple(_moved(party, folder) for party in config.held_out),
        }
    )


def _moved(party: Party, folder: Path) -> Party:
    return party.model_copy(update={"data": folder / party.data})
