"""`ExplanationSpec`: everything that is said about an explanation before any file is opened.

The options of `voile explain`, a table of a TOML file and the body of a request say the same things
in the same words: texts, numbers and names of files, and never a loaded object.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from voile.core.errors import InvalidInput, Refused
from voile.release.levels import Level, Role, check_role


class Protect(StrEnum):
    """Whose rows are protected."""

    TRAINING = "training"
    BACKGROUND = "background"
    POPULATION = "population"
    EXPLAINED_ROW = "explained-row"

    @property
    def of_data(self) -> bool:
        """Whether the rows that are handed in to be explained are what is protected."""
        return self in (Protect.POPULATION, Protect.EXPLAINED_ROW)


class ExplanationSpec(BaseModel):
    """What is to be explained, for whom, and what is to be protected.

    Args:
        model: an artefact of voile, an ONNX file, or package.module:object.
        data: file of the rows to explain, or `-`; None where they are handed in.
        schema_file: the schema of the rows, TOML (`schema` in files); an artefact has its own.
        model_origin: what the model was made from: `public`, `trained-on:LABEL[,LABEL]`, or a JSON
            file with the guarantees of its training; not for an artefact, which says so itself.
        protect: whose rows.
        account: who pays; not needed for training rows.
        background: file of the rows that absent features take their values from.
        background_origin: what these were made from, as `model_origin`; there is no default,
            because the promise rests on it. Not for rows that are themselves protected.
        explainer: file of a learned explainer of this model.
        level, role: see `voile.release.levels`.
        clusters: JSON of groups of features for the level aggregate, declared without looking at
            protected data.
        top: name this many features of each row: of a population or a protected row only these
            are released; else only these are shown.
        epsilon, delta: of one release (for protected records, of each row).
        noise: instead of epsilon, the noise's standard deviation as a share of the output's width.
        bound: length that an explained row's vector is clipped to; half of the output's width if it
            is not stated.
        output: which output; of two classes the last.
        output_range: where outputs lie, if the model does not say.
        id_column: column with identifiers, by which each named record pays for itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    model: str
    data: str | None = None
    schema_file: Annotated[Path | None, Field(alias="schema")] = None
    model_origin: str | None = None
    protect: Protect = Protect.TRAINING
    account: str | None = None
    background: str | None = None
    background_origin: str | None = None
    explainer: Path | None = None
    level: Level = Level.DETAILED
    role: Role = Role.ANALYST
    clusters: Path | None = None
    top: Annotated[int | None, Field(ge=1)] = None
    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    bound: float | None = None
    output: str | None = None
    output_range: tuple[float, float] | None = None
    id_column: str | None = None

    @classmethod
    def read(cls, content: Mapping[str, Any], source: str = "") -> Self:
        """From plain values; `InvalidInput` names `source`, the field and what is wrong with it."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            place = f"{source}: " if source else ""
            raise InvalidInput(place + "; ".join(map(_problem, error.errors()))) from None

    @property
    def files(self) -> list[Path]:
        """What it reads: the files that it names, and those of an artefact."""
        named = (
            *(self.model, self.data, self.schema_file, self.model_origin, self.background),
            *(self.background_origin, self.explainer, self.clusters),
        )
        found = [Path(name) for name in named if name is not None and Path(name).is_file()]
        return [*found, *(path for path in Path(self.model).rglob("*") if path.is_file())]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        check_role(self.level, self.role)
        if self.epsilon is not None and self.noise is not None:
            raise ValueError("epsilon follows from a noise level: state one of them, not both")
        if self.clusters is not None and self.level is not Level.AGGREGATE:
            raise ValueError(f"clusters are for the level aggregate, not {self.level}")
        of_public_rows = self.background is not None and self.protect is not Protect.BACKGROUND
        if self.background_origin is not None and not of_public_rows:
            raise ValueError(
                "--background-origin is about a file that is given with --background and is not "
                "itself protected: leave it out"
            )
        if self.data is not None:
            self.check_apart(self.data)
        return self

    def check_apart(self, data: str) -> None:
        """Refuse protected rows as their own background: they would be used as if anybody might
        see them.

        Only which file it is decides, before it is read: what stands in a protected file must not
        make anything fail.
        """
        if self.background is None or not self.protect.of_data:
            return
        here, there = Path(data), Path(self.background)
        both = here.exists() and there.exists()
        if data == self.background or (both and here.samefile(there)):
            raise Refused(
                f"{self.background}: these rows are what is protected, so they cannot be the "
                "background as well; leave out --background to explain a population over itself, "
                "or give other rows"
            )


def _problem(error: Any) -> str:
    field = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "enum":
        message = f"expected one of {error['ctx']['expected']}, found {error['input']!r:.80}"
    return f"{field}: {message}" if field else message
