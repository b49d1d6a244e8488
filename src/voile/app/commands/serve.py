"""Commands about the HTTP service: run it, and decide who may ask."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field
from voile.core.transparency import Level, Role


class Serve(Command):
    """Answer over HTTP with the releases of a workspace, until it is told to stop.

    Settings stand in voile.toml, in the table `serve`. Make a key first: `voile keys add`.

    >>> Serve(workspace="voile.toml").port is None
    True
    """

    workspace: Path = custodian_field(
        "The workspace.", default=Path("voile.toml"), option="", metavar="[WORKSPACE]"
    )
    host: str | None = custodian_field(
        "Address to listen on. Default: as in [serve], else 127.0.0.1.", default=None
    )
    port: int | None = custodian_field(
        "Port; 0 for a free one. Default: as in [serve], else 8460.", default=None, ge=0, le=65535
    )


class _Keys(Command):
    workspace: Path = custodian_field(
        "The workspace.",
        default=Path("voile.toml"),
        option="--workspace",
        metavar="FILE|DIR",
    )


class AddKey(_Keys):
    """Issue an API key. It is shown once: only a digest of it is stored.

    Duties: explain, observe, audit, administer, approve, operator.

    >>> AddKey(holder="ward 3", duties=("explain",)).days
    90.0
    """

    holder: str = custodian_field(
        "Who will use it; recorded in the ledger with each charge.",
        example="ward 3",
        option="",
        metavar="CALLER",
    )
    duties: tuple[str, ...] = custodian_field(
        "What the key may do; repeatable.", default=(), option="--duty", metavar="DUTY"
    )
    accounts: tuple[str, ...] = custodian_field(
        "An account that it may use and see; repeatable. * for all.",
        default=(),
        option="--account",
        metavar="ACCOUNT",
    )
    roles: tuple[Role, ...] = custodian_field(
        "Role for transparency levels; repeatable: reader, user, analyst or auditor.",
        default=(Role.ANALYST,),
        option="--role",
    )
    level: Level = custodian_field(
        "The most detailed level it is shown: summary, aggregate, detailed or granular.",
        default=Level.DETAILED,
    )
    rate: int = custodian_field("Requests a minute; 0 for no limit.", default=600, ge=0)
    days: float = custodian_field(
        "Days until it expires.", default=90.0, gt=0, le=3660, allow_inf_nan=False
    )


class ListKeys(_Keys):
    """List all API keys by their public names; secrets are not stored."""


class RevokeKey(_Keys):
    """End an API key at once."""

    key: str = custodian_field(
        "Public name of the key: the twelve characters after `voile_`.",
        example="3f9a10c2b4d5",
        option="",
        metavar="KEY",
    )
