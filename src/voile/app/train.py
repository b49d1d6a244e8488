"""A private model from one table: a few charged releases, then everything is free.

All of them are charged in one transaction, or none. Asking again gives the same model at no cost; a
new one (`redraw`) is paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.calls import Context
from voile.app.commands.train import Train
from voile.app.explain.artefacts import (
    charged_at,
    charged_since,
    records_so_far,
)
from voile.app.explain.files import PICTURES, check_suffix
from voile.app.explain.rows import check_columns
from voile.app.explain_rows import PreviewResult
from voile.app.output_check import check_outputs
from voile.app.train_chain import Training
from voile.app.train_defaults import found_schema, paying_records
from voile.app.train_network import NetworkTraining
from voile.app.train_statistics import StatisticsTraining
from voile.app.trained_folder import FOLDER, NETWORK, STATISTICS, TrainedFolder, paid_for
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.core.rendering import draw_picture
from voile.core.schema import Schema, is_table
from voile.datasets.tables import STDIN, read_protected_table, read_table
from voile.models.additive import link_of
from voile.pipelines.tables import TableRecords
from voile.records.checkpoints import Kept
from voile.records.vault import check_named, usual_place

LEARNERS: Final[Mapping[str, type[Training]]] = {
    STATISTICS: StatisticsTraining,
    NETWORK: NetworkTraining,
}
"""By name, how a model is learned from one table."""


@dataclass(frozen=True)
class TrainedModelResult:
    """A model that was paid for.

    Args:
        trained: the model, its guarantee and how good it is.
        new: charges that were made by this call; others were paid before.
        since: when the first of its charges was made; seconds since 1970.
        kept: the checkpoint over its records; None where a schedule signs it.
        plot: where its curves were drawn, if they were.
    """

    trained: TrainedFolder
    new: tuple[str, ...]
    since: float
    kept: Kept | None
    plot: Path | None = None

    @property
    def made_from(self) -> str:
        """Which rows it was made from, where that was not now; else nothing."""
        if self.new:
            return ""
        day = datetime.fromtimestamp(self.since, UTC).date()
        return (
            f"made from the rows as they were on {day}, and given again. If you have changed the "
            "file since, pass --redraw, or open an account for a new version of the data set"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        trained = self.trained
        used, names = trained.used_features, trained.schema.feature_names
        return {
            "model": str(trained.folder),
            "rows": trained.rows,
            "used_features": list(used),
            "without_influence": [name for name in names if name not in used],
            "quality": dict(trained.quality),
            "charges": list(trained.charges),
            "replayed": not self.new,
            "made_from": self.made_from,
            "plot": None if self.plot is None else str(self.plot),
            "guarantee": trained.guarantee.to_dict(),
            "checkpoint": None if self.kept is None else str(self.kept),
        }


def train(command: Train, context: Context) -> TrainedModelResult | PreviewResult:
    """Check, then charge all releases, and write what was learned."""
    learner = chosen(LEARNERS, command.model, "model")
    FOLDER.check_place(command.folder)
    _check_plot(command)
    schema = _schema(command)
    open_rows = _open_rows(command, schema, context)
    records = learner.read(_protected(command, schema), schema)
    check_named(command.signing_key, command.policy)
    place = usual_place(
        database=command.database,
        signing_key=command.signing_key,
        policy=command.policy,
        replay_key=command.replay_key,
    )
    with paying_records(command, context, place, len(records)) as (service, command):
        training = learner(service, records, schema, command, open_rows, context.steps)
        if command.preview:
            return PreviewResult(training.preview(), len(records))
        _check_replaced(command, training)
        if training.warning and not (command.sure or training.is_begun):
            context.ask(f"{training.warning}. Train all the same?")
        before = records_so_far(service)
        with context.charging(service.vault, lambda: ()):
            learned = training.learn()
            # Signed before anything leaves: a database that is set back afterwards is noticed.
            kept = context.sign(service.vault)
            trained = training.save(learned, command.folder)
        new = charged_since(service, trained.charges, before)
        since = charged_at(service, trained.charges[0])
    if command.plot is not None:
        picture = draw_picture(trained, command.plot.suffix[1:].lower())
        replace_file(command.plot, picture)
    return TrainedModelResult(trained, new, since, kept, command.plot)


# --- what it writes -------------------------------------------------------------------------------


def _check_plot(command: Train) -> None:
    """Before anything is charged."""
    if command.plot is None or command.preview:
        return
    if command.model == NETWORK:
        raise InvalidInput("--plot draws curves, and a network has none; leave it out")
    check_suffix(command.plot, PICTURES)
    if command.folder.resolve() in command.plot.resolve().parents:
        raise InvalidInput(f"{command.plot}: choose a place outside of the model's folder")
    read = [Path(each) for each in (command.rows, command.held_out) if _is_named_file(each)]
    check_outputs([command.plot], read)
    if command.plot.exists() and not command.overwrite:
        raise InvalidInput(
            f"{command.plot}: exists already. Existing files are kept unless you pass --overwrite; "
            "nothing was charged"
        )


def _check_replaced(command: Train, training: Training) -> None:
    """A model that was paid for is replaced by itself only, unless somebody says so."""
    there = paid_for(command.folder)
    if there is not None and there != training.paid_before and not command.overwrite:
        raise InvalidInput(
            f"{command.folder}: holds another model, of {there[0]!r}, paid for by "
            f"{', '.join(there[1])}. Existing models are kept unless you pass --overwrite; nothing "
            "was charged"
        )


# --- what it reads --------------------------------------------------------------------------------


def _schema(command: Train) -> Schema:
    schema = found_schema(command)
    link_of(schema)
    label = None if schema.label is None else schema.label.name
    if command.label not in (None, label):
        raise InvalidInput(
            f"--label {command.label!r}: the label of the schema {schema.name!r} is {label!r}; "
            "only the label can be predicted"
        )
    return schema


def _protected(command: Train, schema: Schema) -> Any:
    """The protected rows; only the columns that are there can be wrong."""
    return _table(command.rows, schema, read_protected_table)


def _open_rows(command: Train, schema: Schema, context: Context) -> TableRecords | None:
    """Rows to measure on, checked before anything is charged."""
    given = command.held_out
    if given is None:
        return None
    from voile.app.federate.tables import check_open_rows

    if _is_file(given) and (str(given) == STDIN or not _is_named_file(command.rows)):
        raise InvalidInput(
            "--held-out: the protected rows are in no named file, so nothing tells whether these "
            "are the same; give both as files, or both as tables in Python"
        )
    if _is_same(given, command.rows):
        raise InvalidInput(
            "--held-out: these are the protected rows, and figures measured on them would be "
            "released without a charge; give public rows"
        )
    table = _table(given, schema, read_table)
    columns = {str(name): table[name] for name in table.keys()}  # noqa: SIM118
    source = Path(given) if _is_file(given) else Path("held-out rows")
    for remark in check_open_rows(schema, columns, source, labelled=True):
        context.say(remark)
    found = TableRecords.read(schema, table).readable()
    if np.isnan(found.labels).all():
        raise InvalidInput(f"{source}: no row has a label and a feature that can be read")
    return found


def _table(given: Any, schema: Schema, read: Any) -> Any:
    table = read(given) if _is_file(given) else given
    if not is_table(table):
        raise InvalidInput("expected the name of a file, or a table with a column for each feature")
    check_columns(table, schema, given if _is_file(given) else "", labelled=True)
    return table


def _is_file(given: Any) -> bool:
    return isinstance(given, str | PathLike)


def _is_named_file(given: Any) -> bool:
    return _is_file(given) and str(given) != STDIN


def _is_same(one: Any, other: Any) -> bool:
    if not (_is_file(one) and _is_file(other)):
        return one is other
    here, there = Path(one), Path(other)
    return here == there or (here.exists() and there.exists() and here.samefile(there))
