"""`voile init`: begin with one's own files. Tables start a federation, a model a workspace."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from voile.cli.output import JsonOption, console, explain_by_name, given_options, print_json
from voile.cli.rounds import say_if_weak

EPILOG = """\
Examples:

  voile init hospital-a.csv hospital-b.csv --label readmitted --name "clinics 2026" --output study

  voile init risk.onnx --schema clinic.toml --model-origin public --background harbour.csv
  --protect background --dataset "harbour 2026" --epsilon 3 --delta 1e-5

  voile init scoring.models:risk --schema loans.toml --model-origin training.json
  --background public.csv --background-origin public

  voile init output/artefact --output study
"""
_FOR_TABLES = ("label", "name")
_FOR_BOTH = ("source", "output", "as_json")


def init(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...|MODEL",
            help="CSV or Parquet, one for each party of a federation; or one model: an artefact "
            "of voile, an ONNX file, or package.module:object. A federation.toml of an earlier "
            "version is split.",
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(help="Of a federation, the column to predict; the last one if not given."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Schema of the rows (TOML); an artefact has its own."),
    ] = None,
    model_origin: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGIN",
            help="What the model was made from: public, trained-on:LABEL, or a JSON file with the "
            "guarantees of its training; not for an artefact.",
        ),
    ] = None,
    between: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Where outputs lie, if the model does not say."),
    ] = None,
    of: Annotated[str | None, typer.Option(help="Which output; the last of two classes.")] = None,
    background: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rows that absent features take their values from."),
    ] = None,
    background_origin: Annotated[
        str | None,
        typer.Option(metavar="ORIGIN", help="What --background was made from, if not protected."),
    ] = None,
    protect: Annotated[
        str, typer.Option(help="Whose rows: training, background, population or explained-row.")
    ] = "training",
    id_column: Annotated[
        str | None, typer.Option(help="Column with identifiers: each named record pays by itself.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Label of the protected data set's version; an account is opened."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="What that account promises.")] = None,
    delta: Annotated[float | None, typer.Option(help="What that account promises.")] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Noise of one answer, as a share of the output's width; more noise costs less."
        ),
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="'blank one', 'replace one' or 'add or remove one'.")
    ] = None,
    records_per_person: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="You declare that at most K of its records belong to one person."
        ),
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="Name of that account; the label if not given.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Of the federation, and of this version of its data: asked for on a terminal, "
            "else the folder's. Or of the release; the model's if not given."
        ),
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="The log's name, best a URL without https://.")
    ] = None,
    storage: Annotated[
        str, typer.Option(help="Database: a file, postgresql://..., or env:VARIABLE.")
    ] = "log.db",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Start a federation from tables, or a workspace (voile.toml) from a model.

    Of tables nothing but the header is read: what is possible in a column is for you to say. With a
    model, everything is tried first; then the log, its keys, the account and voile.toml are made.
    """
    from voile.app.explain import ExplanationSpec

    if len(source) == 1 and source[0].endswith(".toml"):
        _only(context, _FOR_BOTH, "is for tables or a model, and this is a federation")
        _split_federation(Path(source[0]), output, as_json=as_json)
        return
    if not _is_model(source, schema):
        _only(context, (*_FOR_TABLES, *_FOR_BOTH), "is for a model, and these are tables")
        _start_federation([Path(each) for each in source], output, label, name, as_json=as_json)
        return
    if len(source) > 1:
        raise typer.BadParameter("a workspace starts from one model")
    if label is not None:
        raise typer.BadParameter("--label is for tables, and this is a model")
    spec = ExplanationSpec.read(
        {
            "model": source[0],
            "schema": schema,
            "model_origin": model_origin,
            "output_range": between,
            "output": of,
            "background": background,
            "background_origin": background_origin,
            "protect": protect,
            "id_column": id_column,
            "account": account,
            "noise": noise,
        }
    )
    figures = {
        "dataset": dataset,
        "epsilon": epsilon,
        "delta": delta,
        "relation": relation,
        "records_per_person": records_per_person,
    }
    promise = {key: value for key, value in figures.items() if value is not None}
    place = {"name": name, "folder": output, "origin": origin, "storage": storage}
    _start_workspace(spec, promise or None, place, as_json=as_json)


def _is_model(source: list[str], schema: Path | None) -> bool:
    """By what it is called, or because it has a schema already: no file is read to find out."""
    from voile.models import names_model

    return schema is not None or any(names_model(each) or Path(each).is_dir() for each in source)


def _only(context: typer.Context, allowed: tuple[str, ...], why: str) -> None:
    for option, flag in given_options(context).items():
        if option not in allowed:
            raise typer.BadParameter(f"{flag} {why}")


def _start_federation(
    data: list[Path], output: Path, label: str | None, name: str | None, *, as_json: bool
) -> None:
    from voile.app.federate.starting import default_name, start

    if name is None and not as_json and sys.stdin.isatty() and sys.stderr.isatty():
        asked = "Name of the federation, and of this version of its data"
        name = typer.prompt(asked, default=default_name(output), err=True)
    started = start(data, output, label=label, name=name)
    if as_json:
        print_json(
            {
                "schema": str(started.schema),
                "config": str(started.config),
                "columns": list(started.columns),
                "label": started.label,
            }
        )
        return
    checks = [
        shlex.join(["voile", "schema", "check", str(started.schema), str(each)]) for each in data
    ]
    console().print(
        f"{started.schema}: fill in kind and bounds (or categories) of "
        f"{len(started.columns) - 1} features and the classes of {started.label!r}\n"
        f"{started.config}: fill in the number of rows of each party; it is public\n"
        f"{started.config.parent / 'server.toml'}: name a held-out file, which nobody protects\n"
        f"{started.config.parent / 'nodes'}: what stays with each party\n\n"
        f"Then:\n  {shlex.join(['voile', 'schema', 'show', str(started.schema)])}\n"
        + "".join(f"  {check}\n" for check in checks)
        + f"  {shlex.join(['voile', 'federate', str(started.config), '--preview'])}\n"
        f"  {shlex.join(['voile', 'federate', str(started.config)])}\n\n"
        "The checks are for each party's own eyes: of protected rows that cannot be read, nothing "
        "is told later.",
        soft_wrap=True,
    )


def _split_federation(file: Path, output: Path, *, as_json: bool) -> None:
    from voile.app.federate.starting import split

    config = split(file, output)
    if as_json:
        print_json({"config": str(config)})
        return
    console().print(
        f"{config}: what all parties agree on\n"
        f"{config.parent}: the server's file, and a folder with books and keys for each party\n\n"
        "Then:\n"
        f"  {shlex.join(['voile', 'federate', str(config)])}",
        soft_wrap=True,
    )


def _start_workspace(
    spec: Any, promise: dict[str, Any] | None, place: dict[str, Any], *, as_json: bool
) -> None:
    from voile.app.workspace import start_workspace

    stated = promise or {}
    say_if_weak(stated.get("epsilon", 0.0), stated.get("delta", 0.0))
    started = start_workspace(spec, promise, **place)
    more = ("--preview",) if started.costs else ()
    following = explain_by_name(started.file.parent, started.release, started.example, *more)
    if as_json:
        print_json(
            {
                "workspace": str(started.file),
                "release": started.release,
                "example": str(started.example),
                "next": following,
            }
        )
        return
    paid = " (without --preview it is charged)" if started.costs else ""
    console().print(
        f"{started.file}: models, schemas, backgrounds, accounts and releases by name\n"
        f"{started.example}: a row of the schema's defaults\n\n"
        f"Then, with rows of your own{paid}:\n  {following}",
        soft_wrap=True,
    )
