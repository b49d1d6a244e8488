"""`Explain`: explain rows of a table; and `ExplanationSpec`, what a release in a workspace says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, model_validator

from voile.app.commands.fields import (
    Command,
    NameOrObject,
    PathOrObject,
    RecordFiles,
    SavedFiles,
    caller_field,
    custodian_field,
)
from voile.core.choices import chosen
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.core.transparency import Level, Method, Role, check_role

BESIDE_A_NAME: Final = frozenset(
    {"model", "data", "workspace", "purpose", "caller", "redraw", "coarser", "preview", "overwrite"}
    | {"save_as", "plot", "page", "receipt", "row_receipts", "engine"}
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

    schema_file: PathOrObject | None = custodian_field(
        "Schema of the rows (TOML). Not needed for an artefact.",
        default=None,
        option="--schema",
        metavar="FILE",
        alias="schema",
    )
    model_origin: str | None = custodian_field(
        "What the model was trained on: public, trained-on:LABEL, or a JSON file with the "
        "guarantees of its training. Leave it out for an artefact.",
        default=None,
        example="public",
        metavar="ORIGIN",
    )
    protect: ProtectedRows = custodian_field(
        "Whose rows are protected: training, background, population or explained-row.",
        default=RowPart.TRAINING,
    )
    background: NameOrObject | None = custodian_field(
        "Rows that replace the values of absent features.", default=None, metavar="FILE"
    )
    background_origin: str | None = custodian_field(
        "Where --background comes from, as for --model-origin. Required unless it is protected.",
        default=None,
        example="public",
        metavar="ORIGIN",
    )
    output_name: str | None = caller_field(
        "Which output to explain. Default: the last of two classes.",
        default=None,
        formerly=("--of", "output"),
    )
    output_range: tuple[float, float] | None = custodian_field(
        "Smallest and largest output, if the model does not state them.",
        default=None,
        formerly=("--between",),
    )
    id_column: str | None = custodian_field(
        "Column with identifiers: each record pays from its own budget.", default=None
    )


class ExplanationSpec(ModelTerms):
    """What is to be explained, for whom, and what is to be protected.

    >>> spec = ExplanationSpec(model="model.onnx", model_origin="public", protect="population")
    >>> spec.protect.is_explained
    True
    """

    model: NameOrObject = custodian_field(
        "Name of a release in the workspace, an artefact of voile, an ONNX file, or "
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
        "JSON file with groups of features for the level aggregate, declared without looking at "
        "protected data. Default: groups found in the background, unless it is protected.",
        default=None,
        metavar="FILE",
    )
    top: int | None = caller_field(
        "Number of features to name in each row. For a population or a protected row, only these "
        "are released.",
        default=None,
        ge=1,
    )
    epsilon: float | None = caller_field(
        "Privacy cost of one release, or of each row if records are protected. Default: follows "
        "from --noise.",
        default=None,
        example=0.5,
        gt=0,
        allow_inf_nan=False,
    )
    total_epsilon: float | None = caller_field(
        "Privacy cost of the whole call over a protected background, however many rows it "
        "explains; more rows get more noise each. Instead of --epsilon.",
        default=None,
        example=0.5,
        gt=0,
        allow_inf_nan=False,
    )
    delta: float | None = caller_field(
        "Default: a tenth of the account's.", default=None, example=1e-6, ge=0, lt=1
    )
    noise: float | None = caller_field(
        "Noise level, as a share of the output's width.",
        default=None,
        example=0.05,
        gt=0,
        allow_inf_nan=False,
    )
    bound: float | None = caller_field(
        "Clip the vector of an explained row to this length. Default: half of the output's width.",
        default=None,
    )

    @property
    def files(self) -> list[Path]:
        """What it reads: the files that it names, and those of an artefact."""
        given = (
            *(self.model, self.data, self.schema_file, self.model_origin, self.background),
            *(self.background_origin, self.explainer, self.clusters),
        )
        named = [Path(each) for each in given if isinstance(each, str | Path)]
        inside = Path(self.model).rglob("*") if isinstance(self.model, str) else ()
        return [path for path in (*named, *inside) if path.is_file()]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        check_role(self.level, self.role)
        if self.epsilon is not None and self.noise is not None:
            raise ValueError(
                "set either epsilon or noise, not both: epsilon follows from the noise level"
            )
        if self.total_epsilon is not None:
            self._check_total()
        if self.clusters is not None and self.level is not Level.AGGREGATE:
            raise ValueError(f"clusters work with the level aggregate only, not {self.level}")
        if self.method is not None:
            self._check_method(self.method)
        of_public_rows = self.background is not None and self.protect is not RowPart.BACKGROUND
        if self.background_origin is not None and not of_public_rows:
            raise ValueError(
                "--background-origin is only for a --background file that is not protected: "
                "leave it out"
            )
        if isinstance(self.data, str):
            self.check_apart(self.data)
        return self

    def _check_total(self) -> None:
        if self.epsilon is not None or self.noise is not None:
            raise ValueError("set one of epsilon, total_epsilon and noise: they follow from it")
        if self.protect is not RowPart.BACKGROUND:
            raise ValueError(
                "total_epsilon is for a protected background. A population costs epsilon as a "
                "whole, a protected row pays epsilon from its own budget: set epsilon"
            )

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
        if not isinstance(self.background, str) or self.protect is RowPart.TRAINING:
            return
        here, there = Path(data), Path(self.background)
        both = here.exists() and there.exists()
        if data != self.background and not (both and here.samefile(there)):
            return
        if self.protect is RowPart.BACKGROUND:
            raise Refused(
                f"{self.background}: this file is the protected background, and an explanation "
                "shows the rows it explains. Pass other rows to explain"
            )
        raise Refused(
            f"{self.background}: this file is protected, so it cannot also be the background. "
            "Leave out --background to explain a population over itself, or pass another file"
        )


class Explain(SavedFiles, RecordFiles, ExplanationSpec):
    """Explain what MODEL predicts for the rows of DATA, with a guarantee and a receipt.

    A model trained with differential privacy can be explained for free (--protect training).
    Everything else is charged to an account. Every answer is recorded in the log.

    With the NAME of a release, the other settings come from the workspace (voile.toml, `voile
    init`).

    If --output is a folder, DATA is a table of any size in Parquet files (a folder, or a pattern in
    quotes), which is explained block by block at no cost.

    >>> Explain(model="readmission", data="patients.csv", preview=True).purpose
    'explanation'
    """

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        """Whether terms agree is known once it is known where they stand (`spec`)."""
        return self

    @property
    def folder(self) -> Path | None:
        """Where the explanation of a large table goes, block by block."""
        return self.save_as if self.save_as is not None and not self.save_as.suffix else None

    @property
    def spec(self) -> ExplanationSpec:
        """What is stated here about the explanation; `InvalidInput` if it contradicts itself."""
        fields = ExplanationSpec.model_fields
        stated = {name: getattr(self, name) for name in self.model_fields_set if name in fields}
        return ExplanationSpec.read(stated)

    purpose: str = caller_field("Why you ask; recorded in the log.", default="explanation")
    caller: str = custodian_field(
        "Who asks; recorded in the log.", default="analyst", formerly=("--by",)
    )
    redraw: bool = caller_field(
        "Pay for new noise, even if the question was answered before.",
        default=False,
        formerly=("--fresh", "fresh"),
    )
    coarser: bool = caller_field(
        "Accept a coarser level, if a rule of the workspace offers one.", default=False
    )
    preview: bool = caller_field("Show cost and accuracy without charging anything.", default=False)
    plot: Path | None = custodian_field(
        "Save a plot (.png, .svg, .pdf).", default=None, metavar="FILE"
    )
    page: str | None = custodian_field(
        "Save a page for the person the row is about (.html), or a folder with a page for each "
        "row of a free explanation. The files to verify it are saved next to it.",
        default=None,
        metavar="FILE|DIR/",
    )
    row_receipts: Path | None = custodian_field(
        "Save a proof for each row of a free explanation.", default=None, metavar="DIR"
    )
    engine: str = custodian_field(
        "What explains a large table when --output names a folder: local, ray or spark.",
        default="local",
        example="ray",
        metavar="NAME",
    )
    workspace: Path | None = custodian_field(
        "Workspace to look up NAME in. Default: voile.toml in this folder.",
        default=None,
        metavar="FILE|DIR",
    )
