"""Commands about a testbed: a federation across machines, all of it on this one."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class _TestbedFolder(Command):
    folder: Path = custodian_field(
        "Of the testbed, and of nothing else.", default=Path("testbed"), metavar="FOLDER"
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
