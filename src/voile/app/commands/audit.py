"""Commands about the audit log: start it, sign it, prove what is in it, check proofs."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, LedgerDatabase, SigningFiles, custodian_field


class _Witnesses(Command):
    witnesses: tuple[str, ...] = custodian_field(
        "Ask this witness instead of those in the policy; repeatable.",
        default=(),
        option="--witness",
        metavar="URL",
    )


class _Receipt(Command):
    out: Path = custodian_field(
        "Where to write it.", default=Path("receipt.tlog-proof"), metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of these names without asking.", default=False, option="--yes"
    )


class StartLog(SigningFiles, LedgerDatabase):
    """Create an audit log: its signing key (unless the file exists), tables and policy.

    If it is interrupted, run the same command again.
    """

    origin: str = custodian_field(
        "The log's name, best a URL without https://.", example="example.org/clinic"
    )
    witness_keys: tuple[str, ...] = custodian_field(
        "A witness to trust; repeatable.", default=(), option="--witness-key", metavar="VKEY"
    )
    threshold: int = custodian_field("How many witnesses must cosign.", default=0)
    witnesses: tuple[str, ...] = custodian_field(
        "Where a witness answers; repeatable.", default=(), option="--witness", metavar="URL"
    )


class ShowLog(LedgerDatabase):
    """Show size, root, latest checkpoint and last records of a log."""

    last: int = custodian_field("How many of the last records to show.", default=10, ge=0)
    check: bool = custodian_field("Recompute the whole tree from the records.", default=False)


class ExportLog(LedgerDatabase):
    """Export the latest checkpoint and all records it covers, so that others can verify them.

    The folder holds public facts and commitments, and nothing protected.
    """

    folder: Path = custodian_field("A new folder.", example="export", option="")


class SignCheckpoint(_Witnesses, SigningFiles, LedgerDatabase):
    """Sign the log, collect the cosignatures that the policy requires, and publish a checkpoint.

    With --rotate-to, the new key is recorded in the log and added to the policy, and this
    checkpoint is signed with both keys. Use the new key alone from then on.

    The log must extend the checkpoint next to the key, and the one in --out if it exists. So a
    database restored from an old backup is noticed; keep --out away from the database. Exit code 4
    if cosignatures are missing: the checkpoint is kept, run the command again to collect them.
    """

    out: Path = custodian_field(
        "Where to write it.", default=Path("checkpoint.txt"), metavar="FILE"
    )
    rotate_to: Path | None = custodian_field(
        "Switch to this key (created if missing) and sign with both.", default=None, metavar="FILE"
    )
    reason: str = custodian_field("Why the key is rotated.", default="rotation")
    patience: float = custodian_field("Seconds for all witnesses.", default=10.0, ge=0.1)


class AcceptCheckpoint(SigningFiles, LedgerDatabase):
    """Continue with this database although its pinned checkpoint (audit.checkpoint) is lost.

    You confirm that the database is the current one. If it was restored from an older copy, charges
    are missing and the budget could be spent twice. The command shows the number of records and
    the time of the last one, and asks. An existing pinned checkpoint is never replaced.
    """

    reason: str = custodian_field("Reason; recorded in the log.", example="disk replaced")
    sure: bool = custodian_field("Accept without asking.", default=False, option="--yes")


class CompleteReceipts(_Witnesses, SigningFiles, LedgerDatabase):
    """Ask the witnesses again, and update the receipts with their cosignatures.

    Exit code 4 if cosignatures are still missing.
    """

    receipts: tuple[Path, ...] = custodian_field(
        "Receipts (of a record or a row) that lack cosignatures.", option="", metavar="RECEIPTS"
    )


class IssueReceipt(_Receipt, SigningFiles, LedgerDatabase):
    """Write the receipt of an earlier answer again.

    A checkpoint is signed first if none covers the record yet. If the key is not here, run
    `voile audit checkpoint` where it is.

    With --table and --row, write the proof of one row of a table that was explained into a folder,
    and the explanation of that row beside it (.voile).
    """

    table: Path | None = custodian_field(
        "The folder that `voile explain --output DIR` wrote.", default=None, metavar="DIR"
    )
    row: int | None = custodian_field(
        "A row of that table, counted from 1.", default=None, example=17, ge=1
    )

    charge: str = custodian_field(
        "Name of a charge, or the number of the record of a call that cost nothing.",
        example="clinic#3",
        option="",
        metavar="CHARGE",
    )
    replay_key: Path | None = custodian_field(
        "Key that recognises repeated questions. Default: replay.key next to DATABASE.",
        default=None,
        metavar="FILE",
    )


class ProveRecord(_Receipt, LedgerDatabase):
    """Write a receipt for a record, or a proof that one tree extends another (--from, --to)."""

    index: int | None = custodian_field(
        "Number of a record, for a receipt.", default=None, option=""
    )
    nonces: Path | None = custodian_field(
        "JSON with the nonces of the record.", default=None, metavar="FILE"
    )
    smaller: int | None = custodian_field("Size of an earlier tree.", default=None, option="--from")
    larger: int | None = custodian_field("Size of a later tree.", default=None, option="--to")


class VerifyProof(Command):
    """Verify a receipt or an export offline; exit code 4 if a step fails.

    Prints each step: checked, failed, or not checkable with the files given. With --rpc, the
    checkpoint on the chain is compared too; --consistency then leads to it, unless --checkpoint
    is given.
    """

    proof: Path = custodian_field(
        "A receipt (of a record or a row), or the folder of an export.",
        example="17.tlog-proof",
        option="",
    )
    policy: Path = custodian_field(
        "Origin, keys and witnesses to trust.", default=Path("audit-policy.toml"), metavar="FILE"
    )
    query: Path | None = custodian_field(
        "Canonical bytes of what was asked.", default=None, metavar="FILE"
    )
    answer: Path | None = custodian_field(
        "The explanation, as it was saved: a file, or the folder of a large table.",
        default=None,
        metavar="FILE|DIR",
    )
    checkpoint: Path | None = custodian_field(
        "A checkpoint from another source.", default=None, metavar="FILE"
    )
    consistency: Path | None = custodian_field(
        "Proof between both, from `voile audit prove --from`.", default=None, metavar="FILE"
    )
    rpc: str | None = custodian_field(
        "Compare with the policy's anchor, through this node of its chain.",
        default=None,
        metavar="URL",
    )
    confirmations: int = custodian_field(
        "Blocks, its own included, until a transaction counts.", default=12, ge=1
    )


class AnchorLog(SigningFiles, LedgerDatabase):
    """Anchor the latest checkpoint of a log on a chain: digest of its name, size and root.

    The policy names the contract; --deploy creates one and writes its address there. The command
    asks for the passphrase of the keystore, or reads it from VOILE_KEYSTORE_PASSPHRASE. After an
    error, run it again: nothing is sent twice.
    """

    rpc: str = custodian_field(
        "A node of the chain, best your own.", metavar="URL", environment="VOILE_RPC"
    )
    keystore: Path = custodian_field(
        "Encrypted key of the account that pays.", example="payer.json", metavar="FILE"
    )
    deploy: int | None = custodian_field(
        "Deploy the contract first, on the chain with this id.",
        default=None,
        metavar="CHAIN",
        ge=1,
    )
    confirmations: int = custodian_field(
        "Blocks, its own included, until a transaction counts.", default=12, ge=1
    )
    patience: float = custodian_field("Seconds for everything.", default=900.0, ge=0.1)
    max_fee: float | None = custodian_field(
        "Most to pay per unit of gas.", default=None, metavar="GWEI", ge=0
    )
    replace: bool = custodian_field("Replace a stuck transaction of this account.", default=False)


class ServeWitness(LedgerDatabase):
    """Run a witness: cosign checkpoints of other logs while they only grow (C2SP tlog-witness).

    >>> ServeWitness(database="w.db", policies=["log.toml"]).port
    8765
    """

    policies: tuple[Path, ...] = custodian_field(
        "Policy of a log to watch (its keys); repeatable.", option="--policy", metavar="FILE"
    )
    key: Path = custodian_field("The signing key.", default=Path("witness.key"), metavar="FILE")
    name: str | None = custodian_field("Create a key with this name.", default=None)
    host: str = custodian_field("Address to listen on.", default="127.0.0.1")
    port: int = custodian_field("0 takes a free one.", default=8765, ge=0, le=65535)


class NewAnchorAccount(Command):
    """Create an account that pays for anchors: a new key, encrypted with a passphrase.

    The command asks for the passphrase, or reads it from VOILE_KEYSTORE_PASSPHRASE. Keystores of
    other programs (Web3 Secret Storage, version 3) work too.
    """

    keystore: Path = custodian_field(
        "A new file: the encrypted key.", example="payer.json", option=""
    )
