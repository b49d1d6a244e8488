"""Commands about a federation: train across parties, watch and stop a run, report on it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from voile.app.commands.fields import Command, RelationKey, custodian_field
from voile.core.guarantee import Relation

# --- Commands about a testbed: a federation across machines, all of it on this one ---------------


class _TestbedFolder(Command):
    folder: Path = custodian_field(
        "Folder of the testbed; used for nothing else.", default=Path("testbed"), metavar="FOLDER"
    )


class StartTestbed(_TestbedFolder):
    """Invent N hospitals, create keys and certificates, and start a SuperLink and a node for each.

    For tests only: all keys are in one folder, and the data are invented. If the testbed exists,
    only processes that do not run are started, such as a node that died.

    >>> StartTestbed(parties=3).folder.name
    'testbed'
    """

    parties: int = custodian_field("How many hospitals.", example=3, option="", metavar="N", ge=1)
    rounds: int = custodian_field("Of each stage.", default=2, ge=1)


class StopTestbed(_TestbedFolder):
    """Stop the processes of a testbed. Its files stay: `up` starts it again.

    >>> StopTestbed().folder.name
    'testbed'
    """


# --------------------------------------------------------------------------------------------------


# --- Commands of one party of a federation, on a machine of its own ------------------------------


class _Node(Command):
    config: Path = custodian_field(
        "The party's own file: node.toml.", example="node.toml", option="", metavar="CONFIG"
    )


class JoinFederation(_Node):
    """Take part in a federation whose server runs on another machine.

    The node uses its own rows, ledger, log, randomness and voile. No code of the server runs here,
    and the server cannot set seed, path, schema, noise or budget. Requests that do not match the
    party's own copy of the agreement are refused, with a line in node.log.

    >>> JoinFederation(config="node.toml").config.name
    'node.toml'
    """


class ShowNodeStatus(_Node):
    """Show requests, spent budget and refusals of this node.

    >>> ShowNodeStatus(config="node.toml").config.name
    'node.toml'
    """


class MakeNodeKeys(_Node):
    """Create the keys of this node, and show what to send to the server.

    >>> MakeNodeKeys(config="node.toml").config.name
    'node.toml'
    """


# --------------------------------------------------------------------------------------------------


class LocalTransport(StrEnum):
    """Transports for parties on this machine."""

    THREADS = "threads"
    SIMULATION = "simulation"


def _config() -> Any:
    return custodian_field(
        "The agreement of all parties: federation.toml. server.toml and the node.toml of each "
        "party (in nodes/) are next to it.",
        example="federation.toml",
        option="",
        metavar="CONFIG",
    )


class _Federation(Command):
    config: Path = _config()


class NewFederation(Command):
    """A federation that is founded in Python, for a trial in one process: what all would agree on.

    >>> NewFederation(parties={"north": "north.csv"}, schema="clinic.toml", epsilon=2, delta=1e-5,
    ...     folder="trial").model
    'statistics'
    """

    parties: Any = custodian_field(
        "Protected rows of each party, by its name: tables, or names of files. Or a folder with a "
        "CSV or Parquet file of each."
    )
    label: str | None = custodian_field(
        "Column to predict. Default: the label of the schema.", default=None
    )
    schema_file: Any = custodian_field(
        "Public description of the columns: a `Schema`, a declaration, or a TOML file.",
        alias="schema",
    )
    epsilon: float = custodian_field(
        "Promised to each row of each party.", gt=0, allow_inf_nan=False
    )
    delta: float = custodian_field("Likewise.", gt=0, lt=1)
    folder: Path = custodian_field("Where agreement, books and results are kept.")
    classes: Any = custodian_field(
        "Classes of the label, if the schema does not declare them.", default=None
    )
    target_range: tuple[float, float] | None = custodian_field(
        "Bounds of the label, if it is a number and the schema does not declare them.",
        default=None,
    )
    model: str = custodian_field("What is trained.", default="statistics")
    secure: bool | str = custodian_field(
        "Whether the server learns sums only; against an 'active' server (True), or one that is "
        "'honest but curious'.",
        default=False,
    )
    rounds: int | None = custodian_field("Of each stage.", default=None, ge=1)
    relation: RelationKey = custodian_field(
        "'zero-out' or 'replace one'.", default=Relation.BLANK_ONE
    )
    held_out: Any = custodian_field(
        "Rows that nobody protects, with labels, to measure on: a table or a file.", default=None
    )
    reference: Any = custodian_field(
        "Public rows to compare with: a table or a file. Default: drawn from the schema, where "
        "the model needs some.",
        default=None,
    )
    name: str | None = custodian_field(
        "Of the federation and of this version of its data. Default: that of the folder.",
        default=None,
    )


class Federate(_Federation):
    """Train a model and its explainer across the parties of CONFIG; write an artefact.

    It first shows what to expect, from public facts and the unprotected held-out file. If the
    result would be useless, it asks for --yes. Run the same command again to continue an
    interrupted run. A complete run is not repeated: its budget is spent. With `secure = true` in
    CONFIG the server learns only sums of updates.

    In Python, CONFIG may also be a `NewFederation`.

    >>> Federate(config="federation.toml").transport.value
    'threads'
    """

    config: Any = _config()
    superlink: str | None = custodian_field(
        "Address of the SuperLink, if parties run on other machines (`voile node`). server.toml "
        "configures it under [superlink].",
        default=None,
        example="127.0.0.1:9091",
        metavar="HOST:PORT",
    )
    transport: LocalTransport = custodian_field(
        "Transport of messages to parties on this machine.",
        default=LocalTransport.THREADS,
        metavar="[threads|simulation]",
    )
    preview: bool = custodian_field("Show what to expect; train and charge nothing.", default=False)
    insist: bool = custodian_field("Continue despite the warnings.", default=False, option="--yes")


class MakeServerKey(_Federation):
    """Create the server's key, and show its line for CONFIG.

    >>> MakeServerKey(config="federation.toml").config.name
    'federation.toml'
    """


class ShowFederationStatus(_Federation):
    """Show the progress of the run, and which parties it waits for.

    >>> ShowFederationStatus(config="federation.toml").config.name
    'federation.toml'
    """


class StopFederation(_Federation):
    """Stop the run. Continue it later with the same command without --stop.

    >>> StopFederation(config="federation.toml").config.name
    'federation.toml'
    """


class WriteReport(Command):
    """Write one HTML page with the guarantee, the quality, and how to verify both.

    >>> WriteReport(artefact="output/artefact").output is None
    True
    """

    artefact: Path = custodian_field(
        "Folder of `voile federate` or `voile train`.",
        example="output/artefact",
        option="",
        metavar="ARTEFACT",
    )
    output: Path | None = custodian_field(
        "File to write. Default: inside ARTEFACT.", default=None, metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of this name without asking.", default=False, option="--yes"
    )
