"""`voile audit`: keep a tamper-evident log, prove what is in it, check proofs, anchor it."""

from __future__ import annotations

from collections.abc import Callable

import typer

from voile.cli.audit import anchoring, keeping, proving, signing

app = typer.Typer(
    help="Keep a tamper-evident log, prove what is in it, check proofs, be a witness.",
    no_args_is_help=True,
)


def _add(name: str, command: Callable[..., None], example: str) -> None:
    app.command(name, epilog=f"Example: voile audit {name} {example}")(command)


_add("init", keeping.init, "log.db --origin example.org/clinic")
_add("show", keeping.show, "log.db --last 5 --check")
_add("checkpoint", signing.checkpoint, "log.db --witness https://w1.example/voile")
_add("accept-checkpoint", signing.accept_checkpoint, 'log.db --reason "disk replaced"')
_add("complete", signing.complete, "log.db e.tlog-proof")
_add("receipt", proving.receipt, "log.db clinic#3 --out 3.tlog-proof")
_add("prove", proving.prove, "log.db 17 --nonces nonces.json --out 17.tlog-proof")
_add("verify", proving.verify, "17.tlog-proof --answer explanation.voile")
_add("witness", signing.witness, "w.db --name w1.example/voile --policy log.toml")
_add("account", anchoring.account, "payer.json")
_add("anchor", anchoring.anchor, "log.db --rpc http://127.0.0.1:8545 --keystore payer.json")
_add("export", keeping.export, "log.db export && voile audit verify export")
