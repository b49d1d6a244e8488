"""`voile explain`: one or many explanations with a guarantee, charged and on record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voile.cli.explain_answer import Call, answer
from voile.cli.named_release import named_release
from voile.cli.options import CallerOption, WorkspaceOption, YesOption
from voile.cli.output import JsonOption

EPILOG = """\
Examples:

  voile explain readmission patients.csv   (a release in voile.toml)

  voile explain artefact patients.csv --output why.voile --plot why.png

  voile explain artefact one-patient.csv --page why.html

  voile explain artefact patients.csv --page why/   (a page for each of them)

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


def explain(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="NAME|MODEL",
            help="A release of the workspace; or an artefact of voile, an ONNX file, or "
            "package.module:object.",
        ),
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
    top: Annotated[
        int | None,
        typer.Option(
            help="Name this many features of each row: of a population or a protected row only "
            "these are released, else only these are shown."
        ),
    ] = None,
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
    yes: YesOption = False,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="DATABASE",
            help="With ledger and log: a file or a URL; log.db of the run beside an artefact, else "
            "of this folder, if not given. The next three lie beside it (replay.key, audit.key, "
            "audit-policy.toml), or for a URL in this folder, if not given.",
        ),
    ] = None,
    replay_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of questions; made for a new ledger.")
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
    page: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR/",
            help="A page for the person whom the one row is about (.html), or a folder with one "
            "for each row of an explanation that is free; what checks it is saved beside it.",
        ),
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the receipt goes instead.")
    ] = None,
    row_receipts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A proof for each row of an explanation that is free."),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain MODEL for the rows of DATA: charged to an account, on record, with a receipt.

    Says whose rows are protected first. Explanations of a model that was trained with differential
    privacy protect its training rows at no cost (--protect training). Anything else is charged.

    With the NAME of a release in a workspace (voile.toml, `voile init`) the rest stands there.
    """
    from voile.app.custody import check_named, usual_place
    from voile.app.explain import ExplanationSpec
    from voile.app.explain.inputs import find_artefact
    from voile.app.explain.outputs import Outputs, page_place

    outputs = Outputs(output, receipt, row_receipts, plot, *page_place(page))
    call = Call(data, by, purpose, fresh, preview, yes, as_json)
    found = named_release(context, workspace, model)
    if found is not None:
        answer(found.spec(model, data), found.place, outputs, call, workspace=found)
        return
    spec = ExplanationSpec.read(
        {
            "model": model,
            "data": data,
            "schema": schema,
            "model_origin": model_origin,
            "protect": protect,
            "account": account,
            "background": background,
            "background_origin": background_origin,
            "explainer": explainer,
            "level": level,
            "role": role,
            "clusters": clusters,
            "top": top,
            "epsilon": epsilon,
            "delta": delta,
            "noise": noise,
            "bound": bound,
            "output": of,
            "output_range": between,
            "id_column": id_column,
        }
    )
    made = find_artefact(model)
    folder = None if made is None else made.folder
    place = usual_place(
        folder, database=database, signing_key=key, policy=policy, replay_key=replay_key
    )
    check_named(key, policy)
    answer(spec, place, outputs, call, artefact=made)
