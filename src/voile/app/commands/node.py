"""Commands of one party of a federation, on a machine of its own."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


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
