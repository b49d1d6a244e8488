"""`Explain`: explain rows of a table; and `ExplanationSpec`, what a release in a workspace says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, model_validator

from voile.app.commands.fields import (
    Command,
    RecordFiles,
    SavedFiles,
    caller_field,
    custodian_field,
)
from voile.core.choices import chosen
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.core.method import Method
from voile.core.transparency import Level, Role, check_role

BESIDE_A_NAME: Final = frozenset(
    {"model", "data", "workspace", "purpose", "caller", "fresh", "preview", "overwrite"}
    | {"save_as", "plot", "page", "receipt", "row_receipts"}
)
"""What may be stated beside the name of a release: nothing that changes what is released, or where
it is kept."""


_WORDS: Final = {part.word: part for part in RowPart if part is not RowPart.OTHER}


def _row_part(given: object) -> object:
    """Whose rows, as people write it."""
    if isinstance(given, RowPart) and given is not RowPart.OTHER:
        return given
    return chosen(_WORDS, given)


ProtectedRows: TypeAlias = Annotated[
    RowPart,
    BeforeValidator(_row_part),
    PlainSerializer(lambda part: part.word, return_type=str, when_used="json"),
]


class ModelTerms(Command):
    """A model, what it was made from, and whose rows are protected."""

    schema_file: Path | None = custodian_field(
        "Schema of the rows (TOML); an artefact has its own.",
        default=None,
        option="--schema",
        metavar="FILE",
        alias="schema",
    )
    model_origin: str | None = custodian_field(
        "What the model was made from: public, trained-on:LABEL, or a JSON file with the "
        "guarantees of its training; not for an artefact, which says so itself.",
        default=None,
        example="public",
        metavar="ORIGIN",
    )
    protect: ProtectedRows = custodian_field(
        "Whose rows: training, background, population or explained-row.", default=RowPart.TRAINING
    )
    background: str | None = custodian_field(
        "Rows that absent features take their values from.", default=None, metavar="FILE"
    )
    background_origin: str | None = custodian_field(
        "What --background was made from, as --model-origin; needed unless it is what is "
        "protected.",
        default=None,
        example="public",
        metavar="ORIGIN",
    )
    output: str | None = caller_field(
        "Which output; the last of two classes.", default=None, option="--of"
    )
    output_range: tuple[float, float] | None = custodian_field(
        "Where outputs lie, if the model does not say.", default=None, option="--between"
    )
    id_column: str | None = custodian_field(
        "Column with identifiers: each named record pays by itself.", default=None
    )


class ExplanationSpec(ModelTerms):
    """What is to be explained, for whom, and what is to be protected.

    >>> spec = ExplanationSpec(model="model.onnx", model_origin="public", protect="population")
    >>> spec.protect.is_explained
    True
    """

    model: str = custodian_field(
        "A release of the workspace; or an artefact of voile, an ONNX file, or "
        "package.module:object.",
        example="model.onnx",
        option="",
        metavar="NAME|MODEL",
    )
    data: Any = caller_field(
        "Rows: CSV with a header, Parquet, or - for stdin.",
        default=None,
        example="patients.csv",
        option="",
    )
    account: str | None = custodian_field(
        "Which account pays; not needed for training rows.", default=None, example="customers"
    )
    explainer: Path | None = custodian_field(
        "A learned explainer of this model.", default=None, metavar="FILE"
    )
    method: Method | None = caller_field(
        "exact, kernel, permutation, trees, surrogate, lime, gradients or saliency; if not given, "
        "Shapley values, exact for up to 16 features.",
        default=None,
        example="lime",
    )
    release_kind: str | None = custodian_field(
        "A kind of release that an installed package adds; voile's own follow from --protect.",
        default=None,
        metavar="NAME",
    )
    level: Level = caller_field("summary, aggregate, detailed or granular.", default=Level.DETAILED)
    role: Role = custodian_field(
        "Who asks: reader, user, analyst or auditor.", default=Role.ANALYST
    )
    clusters: Path | None = custodian_field(
        "JSON of groups of features for the level aggregate, declared without looking at "
        "protected data; without it, they are found in the background, unless that is protected.",
        default=None,
        metavar="FILE",
    )
    top: int | None = caller_field(
        "Name this many features of each row: of a population or a protected row only these are "
        "released, else only these are shown.",
        default=None,
        ge=1,
    )
    epsilon: float | None = caller_field(
        "Of one release, and for protected records of each row; follows from --noise if not given.",
        default=None,
        example=0.5,
    )
    delta: float | None = caller_field("A tenth of the account's if not given.", default=None)
    noise: float | None = caller_field(
        "Noise level, as a share of the output's width.", default=None
    )
    bound: float | None = caller_field(
        "Clip an explained row's vector to this length; half of the output's width if not given.",
        default=None,
    )

    @property
    def files(self) -> list[Path]:
        """What it reads: the files that it names, and those of an artefact."""
        data = self.data if isinstance(self.data, str) else None
        named = (
            *(self.model, data, self.schema_file, self.model_origin, self.background),
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
        if self.method is not None:
            self._check_method(self.method)
        of_public_rows = self.background is not None and self.protect is not RowPart.BACKGROUND
        if self.background_origin is not None and not of_public_rows:
            raise ValueError(
                "--background-origin is about a file that is given with --background and is not "
                "itself protected: leave it out"
            )
        if isinstance(self.data, str):
            self.check_apart(self.data)
        return self

    def _check_method(self, method: Method) -> None:
        if self.explainer is not None:
            raise ValueError("a learned explainer is a method of its own: leave out --method")
        if method is Method.EXACT:
            return
        if self.protect is RowPart.BACKGROUND:
            raise Refused(
                f"nothing bounds how far one background row moves values by the method {method}, "
                "so noise cannot hide it: leave out --method, or protect something else"
            )
        if self.level is Level.GRANULAR:
            raise Refused(f"pairs of features are computed exactly, not by the method {method}")

    def check_apart(self, data: str) -> None:
        """Refuse one file as rows to explain and as background, if one of them is protected: it
        would be shown, or used, as if anybody might see it.

        Only which file it is decides, before it is read: what stands in a protected file must not
        make anything fail.
        """
        if self.background is None or self.protect is RowPart.TRAINING:
            return
        here, there = Path(data), Path(self.background)
        both = here.exists() and there.exists()
        if data != self.background and not (both and here.samefile(there)):
            return
        if self.protect is RowPart.BACKGROUND:
            raise Refused(
                f"{self.background}: these rows are the protected background, and an explanation "
                "shows the rows that it is about; give other rows to explain"
            )
        raise Refused(
            f"{self.background}: these rows are what is protected, so they cannot be the "
            "background as well; leave out --background to explain a population over itself, "
            "or give other rows"
        )


class Explain(SavedFiles, RecordFiles, ExplanationSpec):
    """Explain MODEL for the rows of DATA: charged to an account, on record, with a receipt.

    Says whose rows are protected first. Explanations of a model that was trained with differential
    privacy protect its training rows at no cost (--protect training). Anything else is charged.

    With the NAME of a release in a workspace (voile.toml, `voile init`) the rest stands there.

    >>> Explain(model="readmission", data="patients.csv", preview=True).purpose
    'explanation'
    """

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        """Whether terms agree is known once it is known where they stand (`spec`)."""
        return self

    @property
    def spec(self) -> ExplanationSpec:
        """What is stated here about the explanation; `InvalidInput` if it contradicts itself."""
        fields = ExplanationSpec.model_fields
        stated = {name: getattr(self, name) for name in self.model_fields_set if name in fields}
        return ExplanationSpec.read(stated)

    purpose: str = caller_field("What for; written down.", default="explanation")
    caller: str = custodian_field("Who asks; written down.", default="analyst", option="--by")
    fresh: bool = caller_field("Pay for new noise, even if it was asked before.", default=False)
    preview: bool = caller_field(
        "Say what it would cost and be like; charge nothing.", default=False
    )
    plot: Path | None = custodian_field("Draw it (.png, .svg, .pdf).", default=None, metavar="FILE")
    page: str | None = custodian_field(
        "A page for the person whom the one row is about (.html), or a folder with one for each "
        "row of an explanation that is free; what checks it is saved beside it.",
        default=None,
        metavar="FILE|DIR/",
    )
    row_receipts: Path | None = custodian_field(
        "A proof for each row of an explanation that is free.", default=None, metavar="DIR"
    )
    workspace: Path | None = custodian_field(
        "Whose releases NAME is looked up in; voile.toml of this folder if not given.",
        default=None,
        metavar="FILE|DIR",
    )
