"""`voile explain`: one or many explanations with a guarantee, charged and on record."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.budget import CallerOption, _member
from voile.cli.output import ExitCode, JsonOption, console, exit_code, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from voile.core.explanation import Explanation
    from voile.core.schema import Schema
    from voile.ledger import Account
    from voile.models import WrappedModel
    from voile.release import Origin, Preview
    from voile.workflows.artefact import Artefact
    from voile.workflows.books import Place
    from voile.workflows.charging import Desk
    from voile.workflows.checkpoints import Kept
    from voile.workflows.explain import Explained
    from voile.workflows.explain_choice import Protect, Wish
    from voile.workflows.explain_outputs import Written

EPILOG = """\
Examples:

  voile explain artefact patients.csv --output why.voile --plot why.png

  voile explain model.onnx applicant.csv --schema loans.toml --model-origin training.json
  --background public.csv --background-origin public

  voile explain model.onnx applicant.csv --schema loans.toml --model-origin public
  --protect background --background customers.csv --account customers --preview

  voile explain model.onnx customers.parquet --schema loans.toml --model-origin public
  --protect population --account customers --output importance.voile

  voile explain model.onnx - --schema loans.toml --model-origin public --background public.csv
  --background-origin public --protect explained-row --account people --id-column id --top 3
  < people.csv
"""
_MOST_COLUMNS = 4


def explain(
    model: Annotated[
        str, typer.Argument(help="An artefact of voile, an ONNX file, or package.module:object.")
    ],
    data: Annotated[str, typer.Argument(help="Rows: CSV with a header, Parquet, or - for stdin.")],
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Schema of the rows (TOML); an artefact has its own."),
    ] = None,
    model_origin: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGIN",
            help="What the model was made from: public, trained-on:LABEL, or a JSON file with the "
            "guarantees of its training; not for an artefact, which says so itself.",
        ),
    ] = None,
    protect: Annotated[
        str, typer.Option(help="Whose rows: training, background, population or explained-row.")
    ] = "training",
    account: Annotated[
        str | None, typer.Option(help="Who pays; not needed for training rows.")
    ] = None,
    background: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rows that absent features take their values from."),
    ] = None,
    background_origin: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGIN",
            help="What --background was made from, as --model-origin; needed unless it is what is "
            "protected.",
        ),
    ] = None,
    explainer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A learned explainer of this model.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="summary, aggregate, detailed or granular.")
    ] = "detailed",
    role: Annotated[
        str, typer.Option(help="Who asks: reader, user, analyst or auditor.")
    ] = "analyst",
    clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON of groups of features for the level aggregate, declared without looking at "
            "protected data; without it, they are found in the background, unless that is "
            "protected.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(help="Name this many features only.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Of one release; follows from --noise if not given.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="A tenth of the account's if not given.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise level, as a share of the output's width.")
    ] = None,
    bound: Annotated[
        float | None, typer.Option(help="Clip an explained row's vector to this length.")
    ] = None,
    of: Annotated[str | None, typer.Option(help="Which output; the last of two classes.")] = None,
    between: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Where outputs lie, if the model does not say."),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column with identifiers: each named record pays by itself.")
    ] = None,
    purpose: Annotated[str, typer.Option(help="What for; written down.")] = "explanation",
    by: CallerOption = "analyst",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for new noise, even if it was asked before.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what it would cost and be like; charge nothing.")
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="DATABASE",
            help="With ledger and log: a file, or a URL. This and the next three: by default those "
            "of the run beside an artefact, else of this folder (log.db, replay.key, audit.key, "
            "audit-policy.toml).",
        ),
    ] = None,
    replay_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of questions; made if there is none.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The log's signing key; the copy lies beside it."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Origin, keys and witnesses to trust.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save as .voile, .parquet or .json; receipt beside it."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it (.png, .svg, .pdf).")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the receipt goes instead.")
    ] = None,
    row_receipts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A proof for each row of an explanation that is free."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain MODEL for the rows of DATA: charged to an account, on record, with a receipt.

    Says whose rows are protected first. Explanations of a model that was trained with differential
    privacy protect its training rows at no cost (--protect training). Anything else is charged.
    """
    from voile.release.levels import Level, Role
    from voile.workflows.books import open_books_at
    from voile.workflows.explain import Explainer
    from voile.workflows.explain_choice import Protect, Wish, release_for
    from voile.workflows.explain_outputs import Outputs
    from voile.workflows.explain_question import row_count

    outputs = Outputs(output, receipt, row_receipts, plot)
    outputs.check()
    made = _artefact(model)
    place = _place(made, database, key, policy, replay_key)
    described, protected = _schema(made, schema), _member(Protect, protect)
    given = _given(data, described, id_column, protected=protected.of_data)
    _check_apart(protected, data, background)
    behind = _background(background, described, made, protected=protected is Protect.BACKGROUND)
    wish = Wish(
        protect=protected,
        model=_model(model if made is None else made.model, described, of, between),
        schema=described,
        model_origin=_origin(made, model_origin),
        background=behind.rows,
        background_origin=_background_origin(background_origin, background, protected, made),
        learned=_learned(explainer),
        level=_member(Level, level),
        role=_member(Role, role),
        clusters=_clusters(clusters, level),
        top=top,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        bound=bound,
        speed=_speed(),
    )
    count, noted = row_count(given.rows), (*wish.notes, *given.notes, *behind.notes)
    with open_books_at(place) as books:
        desk = books.desk
        release = release_for(_with_clusters(wish), _account(desk, account), count)
        asking = Explainer(release, desk, account, caller=by, purpose=purpose, notes=noted)
        if preview:
            _print_preview(asking.preview(count), count, as_json=as_json)
            return
        explained = asking(given.rows, identifiers=given.names, fresh=fresh)
        kept = books.keep()
        written = outputs.write(asking, explained, signed=kept.published is not None)
    _print(explained, top, written, kept, as_json=as_json)
    _leave(written, kept, as_json=as_json)


# --- what is read ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """Rows as the release takes them, their identifiers, and what is to be said about them."""

    rows: Any
    names: list[str | None] | None = None
    notes: tuple[str, ...] = ()


def _given(source: str, schema: Schema, id_column: str | None, *, protected: bool) -> _Given:
    """Rows of a file. What stands in protected ones is for the release to read, and never told."""
    from voile.datasets.tables import read_protected_table, read_table
    from voile.workflows.explain_public_rows import public_rows

    table = (read_protected_table if protected else read_table)(source)
    features, names = _features(table, schema, source), _identifiers(table, id_column)
    if protected:
        return _Given(features, names)
    read = public_rows(features, schema, source=source)
    return _Given(read.rows, names, read.notes)


def _features(table: dict[str, Any], schema: Schema, source: str) -> dict[str, Any]:
    """The columns of the schema, all of which must be there."""
    from voile.core.errors import InvalidInput

    missing = [name for name in schema.feature_names if name not in table]
    if missing:
        raise InvalidInput(
            f"{source}: the schema {schema.name!r} needs columns that are not there: "
            + ", ".join(map(repr, missing))
        )
    return {name: table[name] for name in schema.feature_names}


def _artefact(model: str) -> Artefact | None:
    """The artefact that MODEL names, if it is one."""
    from voile.core.errors import InvalidInput

    if not Path(model).is_dir():
        return None
    from voile.workflows.artefact import is_artefact, load_artefact

    if not is_artefact(Path(model)):
        raise InvalidInput(f"{model}: a folder, but not a finished artefact of `voile federate`")
    return load_artefact(Path(model))


def _schema(made: Artefact | None, path: Path | None) -> Schema:
    from voile.core.errors import InvalidInput
    from voile.core.schema import Schema

    if path is not None:
        return Schema.load(path)
    if made is None:
        raise InvalidInput("say what the rows look like: --schema FILE")
    return made.schema


def _origin(made: Artefact | None, text: str | None) -> Origin:
    from voile.core.errors import InvalidInput
    from voile.workflows.explain_files import origin_from

    if text is not None and made is not None:
        raise InvalidInput(
            "an artefact records what it was made from, and nothing overrides that: leave out "
            "--model-origin"
        )
    if text is not None:
        return origin_from(text)
    if made is None:
        raise InvalidInput(
            "every promise rests on what the model was made from: --model-origin public, "
            "trained-on:LABEL, or a JSON file with the guarantees of its training"
        )
    return made.origin


def _background(
    source: str | None, schema: Schema, made: Artefact | None, *, protected: bool
) -> _Given:
    """Rows of a file, or the public reference rows of an artefact."""
    if source is None:
        return _Given(None if made is None else made.reference)
    found = _given(source, schema, None, protected=protected)
    return replace(found, notes=tuple(f"background: {note}" for note in found.notes))


def _background_origin(
    text: str | None, source: str | None, protect: Protect, made: Artefact | None
) -> Origin | None:
    """As stated, for a file that is not protected; reference rows of an artefact are public."""
    from voile.core.errors import InvalidInput
    from voile.release import PUBLIC
    from voile.workflows.explain_choice import Protect
    from voile.workflows.explain_files import origin_from

    if source is None or protect is Protect.BACKGROUND:
        if text is not None:
            raise InvalidInput(
                "--background-origin is about a file that is given with --background and is not "
                "itself protected: leave it out"
            )
        return None if made is None else PUBLIC
    return None if text is None else origin_from(text)


def _check_apart(protect: Protect, data: str, background: str | None) -> None:
    """Refuse protected rows as their own background: it would be used as if it were not protected.

    Only which file it is decides: what stands in a protected file must not make anything fail.
    """
    from voile.core.errors import Refused
    from voile.workflows.explain_choice import Protect

    if background is None or protect not in (Protect.POPULATION, Protect.EXPLAINED_ROW):
        return
    here, there = Path(data), Path(background)
    both = here.exists() and there.exists()
    if data == background or (both and here.samefile(there)):
        raise Refused(
            f"{background}: these rows are what is protected, so they cannot be the background as "
            "well; leave out --background to explain a population over itself, or give other rows"
        )


def _identifiers(table: dict[str, Any], column: str | None) -> list[Any] | None:
    from voile.core.errors import InvalidInput

    if column is None:
        return None
    if column not in table:
        raise InvalidInput(f"there is no column {column!r} with identifiers")
    return list(table[column])


def _model(
    given: str | WrappedModel,
    schema: Schema,
    of: str | None,
    between: tuple[float, float] | None,
) -> WrappedModel:
    """The model with names for its outputs; of two classes one: the other is its complement."""
    from voile.core.explanation_checks import or_numbered
    from voile.models import Box, Simplex, load_model, wrap

    wrapped = wrap(load_model(given)) if isinstance(given, str) else given
    if between is not None:
        wrapped = wrap(wrapped, outputs=Box(*between))
    if wrapped.output_names is None:
        count = wrapped.predict(schema.null_row[None].copy()).shape[1]
        wrapped = wrap(wrapped, output_names=or_numbered(None, "output", count))
    names = wrapped.output_names or ()
    if of is None and isinstance(wrapped.outputs, Simplex) and len(names) == 2:
        of = names[-1]
    return wrapped if of is None else wrapped.only(of)


def _learned(path: Path | None) -> Any:
    if path is None:
        return None
    from voile.attribution.fastshap import load_explainer

    return load_explainer(path)


def _clusters(path: Path | None, level: str) -> Any:
    from voile.core.errors import InvalidInput, UnreadableFile

    if path is None:
        return None
    if level != "aggregate":
        raise InvalidInput(f"clusters are for the level aggregate, not {level}")
    from voile.core.input_file import read_json
    from voile.release.feature_clusters import declared_clusters

    groups = read_json(path)
    try:
        return declared_clusters({name: tuple(members) for name, members in groups.items()})
    except (ValueError, AttributeError, TypeError) as error:
        raise UnreadableFile(
            f"{path}: expected JSON, names with lists of features: {error}"
        ) from error


def _with_clusters(wish: Wish) -> Wish:
    """Clusters are found in the background, if anybody may see it."""
    from voile.core.errors import Refused
    from voile.release.feature_clusters import CLUSTERS, public_clusters
    from voile.release.levels import Level
    from voile.workflows.explain_choice import Protect

    if wish.level is not Level.AGGREGATE or wish.clusters is not None:
        return wish
    if wish.protect is Protect.BACKGROUND or wish.background is None:
        raise Refused(
            "clusters that are found in protected rows have to be paid for, which this command "
            "does not do: in Python, voile.workflows.explain_artefacts.paid_clusters charges them "
            "and hands them to the release with their guarantee; --clusters is only for groups "
            "that were declared without looking at protected data"
        )
    count = min(CLUSTERS, len(wish.schema.features))
    found = public_clusters(wish.background, schema=wish.schema, count=count)
    assert wish.background_origin is not None
    return replace(wish, clusters=replace(found, origin=wish.background_origin))


def _speed() -> Any:
    from voile.attribution import Speed, progress_line

    return Speed(progress=progress_line()) if sys.stderr.isatty() else Speed()


def _place(
    made: Artefact | None,
    database: str | None,
    key: Path | None,
    policy: Path | None,
    replay_key: Path | None,
) -> Place:
    from voile.workflows.books import Place, usual_place

    usual = usual_place(None if made is None or database is not None else made.folder)
    return Place(
        database or usual.database,
        key or usual.signing_key,
        policy or usual.policy,
        replay_key or usual.replay_key,
    )


def _account(desk: Desk, name: str | None) -> Account | None:
    return None if name is None else desk.storage.submit(lambda t: desk.ledger.account(t, name))


# --- what is printed ------------------------------------------------------------------------------


def _print_preview(preview: Preview, rows: int, *, as_json: bool) -> None:
    if not as_json:
        console().print(f"{rows} row(s); nothing was charged\n{preview}", soft_wrap=True)
        return
    print_json(
        {
            "rows": rows,
            "event": None if preview.event is None else str(preview.event),
            "guarantees": [guarantee.to_dict() for guarantee in preview.guarantees],
            "accuracy": preview.accuracy,
            "standard_error": preview.standard_error,
            "half_width": preview.half_width,
            "remarks": list(preview.remarks),
        }
    )


def _print(
    explained: Explained, top: int | None, written: Written, kept: Kept, *, as_json: bool
) -> None:
    """What could not be written is printed instead, to the last digit."""
    from voile.workflows.explain_files import as_plain

    if as_json or written.failed:
        said = {
            "charges": list(explained.charges),
            "records": list(explained.records),
            "replayed": explained.replayed,
            "checkpoint": str(kept),
            "missing_cosignatures": kept.missing,
            "written": written.files,
            "failed": list(written.failed),
        }
        print_json(said | as_plain(explained.explanation))
        return
    out, explanation = console(), explained.explanation
    out.print(_table(explanation, top))
    for promise in explanation.guarantees or ("no privacy guarantee",):
        out.print(f"guarantee: {promise}", soft_wrap=True)
    for note in explanation.notes:
        out.print(f"note: {note}", soft_wrap=True)
    out.print(_paid(explained), soft_wrap=True)
    out.print(f"checkpoint: {kept}", soft_wrap=True)
    for what, paths in written.files.items():
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        out.print(f"{what}: {shown}", soft_wrap=True)


def _leave(written: Written, kept: Kept, *, as_json: bool) -> None:
    """The answer has left; what went wrong after it was paid for is the exit code."""
    if not written.failed and kept.error is None:
        return
    for line in () if as_json else written.failed:
        sys.stderr.write(f"voile: error: {line}; the answer is printed as JSON instead\n")
    raise typer.Exit(ExitCode.FAULT if kept.error is None else exit_code(kept.error))


def _paid(explained: Explained) -> str:
    records = ", ".join(map(str, explained.records[:5])) + (
        "…" if len(explained.records) > 5 else ""
    )
    if not explained.charges:
        return f"cost nothing; record {records}"
    said = "answered before, not charged again" if explained.replayed else "charged"
    charges = ", ".join(explained.charges[:5]) + ("…" if len(explained.charges) > 5 else "")
    return f"{said}: {charges}; record {records}"


def _table(explanation: Explanation, top: int | None) -> Table:
    """A column for each row and output if they are few, else the mean of absolute values."""
    import numpy as np
    from rich.table import Table

    rows, features, outputs = explanation.shape
    wide = rows * outputs <= _MOST_COLUMNS
    heads = (
        [_head(explanation, row, output) for row in range(rows) for output in range(outputs)]
        if wide
        else [f"mean |value| of {rows} rows: {name}" for name in explanation.output_names]
    )
    strength = np.abs(explanation.values).mean(axis=(0, 2))
    shown = np.argsort(-strength, kind="stable")[: top or features]
    table = Table("feature", *heads, title="Explanation")
    for place in shown:
        cells = (
            [
                _cell(explanation, row, place, output)
                for row in range(rows)
                for output in range(outputs)
            ]
            if wide
            else [f"{value:.4g}" for value in np.abs(explanation.values[:, place]).mean(axis=0)]
        )
        table.add_row(explanation.feature_names[place], *cells)
    return table


def _head(explanation: Explanation, row: int, output: int) -> str:
    name = explanation.output_names[output]
    return name if len(explanation) == 1 else f"row {row + 1}: {name}"


def _cell(explanation: Explanation, row: int, place: int, output: int) -> str:
    value, widths = explanation.values[row, place, output], explanation.half_widths
    within = "" if widths is None else f" ± {widths[row, place, output]:.2g}"
    return f"{value:+.4g}{within}"
