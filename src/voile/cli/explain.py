"""`voile explain`: one or many explanations with a guarantee, charged and on record."""

from __future__ import annotations

from voile.app.commands.explain import Explain
from voile.cli.commands import command_line
from voile.cli.explain_output import show_explained

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


explain = command_line(Explain, show_explained)
