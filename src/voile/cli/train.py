"""`voile train`: a private model from one table, charged and on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from voile.app.commands.train import Train
from voile.cli.commands import command_line
from voile.cli.explain_output import print_preview
from voile.cli.output import console, print_json

if TYPE_CHECKING:
    from voile.app.explain_rows import PreviewResult
    from voile.app.train import TrainedModelResult

EPILOG = """\
Examples:

  voile budget open log.db patients --dataset "clinic 2026" --epsilon 4 --delta 1e-6

  voile train patients.csv --schema clinic.toml --account patients --epsilon 2 --delta 1e-6
  --output model --preview

  voile train patients.csv --schema clinic.toml --account patients --epsilon 2 --delta 1e-6
  --output model --held-out public.csv

  voile explain model new-patients.csv   (free)
"""


def _show(result: TrainedModelResult | PreviewResult, *, as_json: bool) -> None:
    from voile.app.train import TrainedModelResult

    if not isinstance(result, TrainedModelResult):
        print_preview(result, as_json=as_json)
    elif as_json:
        print_json(result.to_dict())
    else:
        _print(result)


def _print(result: TrainedModelResult) -> None:
    from voile.views.tables import quality_table

    out, told = console(), result.to_dict()
    for alarm in result.trained.alarms():
        out.print(f"do not use it as it is: {alarm}", soft_wrap=True, style="bold red")
    if result.made_from:
        out.print(result.made_from, soft_wrap=True, style="bold")
    out.print(quality_table(told["quality"]))
    old = [charge for charge in told["charges"] if charge not in result.new]
    lines = {
        "model": told["model"],
        "rows": f"{told['rows']:,}",
        "features in use": ", ".join(told["used_features"]) or "none",
        "without influence": ", ".join(told["without_influence"]) or "none",
        "guarantee": str(result.trained.guarantee),
        "charged": ", ".join(result.new) or "nothing",
        "paid for before": ", ".join(old) or "nothing",
        "checkpoint": told["checkpoint"],
        **({} if told["plot"] is None else {"curves": told["plot"]}),
        "next, try": f"voile explain {told['model']} ROWS.csv; voile report {told['model']}",
    }
    for name, value in lines.items():
        out.print(f"{name}: {value}", soft_wrap=True)


train = command_line(Train, _show)
