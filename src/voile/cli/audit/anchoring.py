"""Put checkpoints on a chain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from voile.cli.audit.opening import known_log, open_database, policy_in
from voile.cli.files import place_of
from voile.cli.options import DatabaseArgument, KeyOption, PolicyOption
from voile.cli.output import JsonOption, print_facts

PASSPHRASE = "VOILE_KEYSTORE_PASSPHRASE"
RpcOption = Annotated[
    str,
    typer.Option(
        "--rpc", envvar="VOILE_RPC", metavar="URL", help="A node of the chain, best your own."
    ),
]
ConfirmationsOption = Annotated[
    int, typer.Option(min=1, help="Blocks, its own included, until a transaction counts.")
]


def account(
    keystore: Annotated[Path, typer.Argument(help="A new file: the encrypted key.")],
    as_json: JsonOption = False,
) -> None:
    """Make an account that pays for anchors: a new key, encrypted with a passphrase.

    The passphrase is asked for, or taken from VOILE_KEYSTORE_PASSPHRASE. Keystores of other
    programs (Web3 Secret Storage, version 3) serve as well.
    """
    from voile.audit_log.anchor import new_keystore
    from voile.core.atomic_file import replace_file
    from voile.core.errors import InvalidInput

    if os.path.lexists(keystore):
        raise InvalidInput(f"{keystore}: exists already; choose another name")
    address, content = new_keystore(_passphrase(new=True))
    replace_file(keystore, content, mode=0o600)
    print_facts({"address": address, "keystore": str(keystore)}, as_json=as_json)


def anchor(
    database: DatabaseArgument,
    rpc: RpcOption,
    keystore: Annotated[
        Path, typer.Option(metavar="FILE", help="Encrypted key of the account that pays.")
    ],
    key: KeyOption = None,
    policy: PolicyOption = None,
    deploy: Annotated[
        int | None,
        typer.Option(
            metavar="CHAIN", min=1, help="Deploy the contract first, on the chain with this id."
        ),
    ] = None,
    confirmations: ConfirmationsOption = 12,
    patience: Annotated[float, typer.Option(min=0.1, help="Seconds for everything.")] = 900.0,
    max_fee: Annotated[
        float | None, typer.Option(min=0.0, metavar="GWEI", help="Most to pay per unit of gas.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of this account's stuck transaction.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put the latest checkpoint of a log on a chain: its name's digest, size and root, no more.

    The contract is the one that the policy file names; --deploy makes one and writes its address
    there. The passphrase of the keystore is asked for, or taken from VOILE_KEYSTORE_PASSPHRASE.
    What the chain holds already is not sent again: after an error, run the command again.
    """
    from voile.app.anchoring import anchor_log, anchors_of, deploy_anchor
    from voile.audit_log import DeliveryTerms
    from voile.audit_log.anchor import open_account
    from voile.audit_log.delivery import GWEI

    place = place_of(database, key, policy)
    rules = policy_in(place.policy)
    terms = DeliveryTerms(
        confirmations,
        patience,
        most_per_gas=None if max_fee is None else int(max_fee * GWEI),
        replace=replace,
    )
    payer = open_account(keystore, _passphrase())
    said: dict[str, Any] = {}
    with open_database(database) as storage:
        log = known_log(storage, place)
        if deploy is not None:
            rules, mined = deploy_anchor(rpc, deploy, place.policy, rules, payer, terms)
            said["deployment_gas"] = mined.gas
        anchors = anchors_of(rules, rpc, confirmations)
        found = anchor_log(storage, log, rules, anchors, payer, terms)
    said |= {"anchor": str(found.address), "size": found.checkpoint.size}
    said |= {"root": found.checkpoint.root.hex()}
    mined_ = found.mined
    said["transaction"] = mined_ and mined_.transaction
    said["gas"] = mined_ and mined_.gas
    print_facts(said, as_json=as_json)


def _passphrase(*, new: bool = False) -> str:
    found = os.environ.get(PASSPHRASE)
    if found is not None:
        return found
    return str(
        typer.prompt(
            "Passphrase of the keystore", hide_input=True, confirmation_prompt=new, err=True
        )
    )
