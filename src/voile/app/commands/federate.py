"""Commands about a federation: train across parties, watch and stop a run, report on it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from voile.app.commands.fields import Command, custodian_field

# --- Commands about a testbed: a federation across machines, all of it on this one ---------------


class _TestbedFolder(Command):
    folder: Path = custodian_field(
        "Folder of the testbed; used for nothing else.", default=Path("testbed"), metavar="FOLDER"
    )


class StartTestbed(_TestbedFolder):
    """Invent N hospitals, make keys and certificates, and start a SuperLink and a node for each.

    For tests only: everybody's keys lie in one folder, and the data are invented. For a
    testbed that is there already, only what does not run is started, such as a node that died.

    >>> StartTestbed(parties=3).folder.name
    'testbed'
    """

    parties: int = custodian_field("How many hospitals.", example=3, option="", metavar="N", ge=1)
    rounds: int = custodian_field("Of each stage.", default=2, ge=1)


class StopTestbed(_TestbedFolder):
    """End the processes of a testbed. Its files stay: `up` starts it again.

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
    """Take part in a federation whose server is elsewhere.

    The node answers with its own rows, ledger, log, randomness and voile. No code of the server
    runs here, and nothing that the server sends can set seed, path, schema, noise or budget: what
    does not fit the party's own copy of the agreement is refused, with a line in node.log.

    >>> JoinFederation(config="node.toml").config.name
    'node.toml'
    """


class ShowNodeStatus(_Node):
    """Show what it was asked, has spent and has refused.

    >>> ShowNodeStatus(config="node.toml").config.name
    'node.toml'
    """


class MakeNodeKeys(_Node):
    """Make its keys, and show what it hands over.

    >>> MakeNodeKeys(config="node.toml").config.name
    'node.toml'
    """


# --------------------------------------------------------------------------------------------------


class LocalTransport(StrEnum):
    """Transports for parties on this machine."""

    THREADS = "threads"
    SIMULATION = "simulation"


class _Federation(Command):
    config: Path = custodian_field(
        "The agreement of all parties: federation.toml. server.toml and the node.toml of each "
        "party (in nodes/) are next to it.",
        example="federation.toml",
        option="",
        metavar="CONFIG",
    )


class Federate(_Federation):
    """Train a model and a private explainer across the parties of CONFIG; write an artefact.

    First it is said what to expect, from public facts and the held-out file, which nobody protects;
    where that would mean nothing, the run asks for --yes. A run that was broken off is continued by
    the same command. One that is complete is not trained again: its budget is spent. With `secure =
    true` in CONFIG the server learns sums of updates and no single one.

    >>> Federate(config="federation.toml").transport.value
    'threads'
    """

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
    """Make the server's key, and show its line for CONFIG.

    >>> MakeServerKey(config="federation.toml").config.name
    'federation.toml'
    """


class ShowFederationStatus(_Federation):
    """Show how far the run is, and for whom it waits.

    >>> ShowFederationStatus(config="federation.toml").config.name
    'federation.toml'
    """


class StopFederation(_Federation):
    """End the run. The same command without --stop goes on later.

    >>> StopFederation(config="federation.toml").config.name
    'federation.toml'
    """


class WriteReport(Command):
    """Write one self-contained HTML page: what is promised, how good it is, how to verify it.

    >>> WriteReport(artefact="output/artefact").output is None
    True
    """

    artefact: Path = custodian_field(
        "Folder of a federation.", example="output/artefact", option="", metavar="ARTEFACT"
    )
    output: Path | None = custodian_field(
        "File to write. Default: inside ARTEFACT.", default=None, metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of this name without asking.", default=False, option="--yes"
    )
