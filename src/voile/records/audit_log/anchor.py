"""Checkpoints of a log on a chain, where nobody can take them back: the door to web3.

A log that was set back, forked or rewritten, with its own key, is sound by itself. What stands on
a chain was there before, and a contract in which sizes only grow keeps it: the log must extend it
(`AuditLog.extends`, step 11 of the verifier).

Nothing but checkpoints goes there: the SHA-256 of the log's name, a size, a root. A chain forgets
nothing, so nothing that could ever have to be deleted may stand on one.

What is believed, and why:

- which contract: the policy's anchor, chain and address (`AnchorAddress`); the node's chain id and
  the code at the address are compared with what is expected and what is shipped
- what the chain says: a node that somebody else runs can lie; ask your own, or two
- a block only once enough others lie above it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, VerificationFailed, VoileError
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.core.optional import optional
from voile.records.audit_log.delivery import (
    ChainFault,
    DeliveryTerms,
    Fees,
    MinedTransaction,
    deliver,
)
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.log import AuditLog
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.policy import AnchorAddress, Policy
from voile.records.audit_log.publishing import latest_checkpoint, missing_cosignatures
from voile.records.storage import Storage

CONFIRMATIONS: Final = 12
_TIMEOUT: Final = 20.0
"""Seconds for one question to the node."""
_SPARE_GAS: Final = 1.2


@dataclass(frozen=True)
class ShippedContract:
    """The contract as it is shipped; a test compiles it again and compares."""

    abi: list[dict[str, Any]]
    bytecode: str
    bytecode_runtime: str


@cache
def shipped_contract() -> ShippedContract:
    text = resources.files("voile.records.audit_log").joinpath("anchor_contract", "anchors.json")
    found = json.loads(text.read_text(encoding="utf-8"))
    return ShippedContract(found["abi"], found["bytecode"], found["bytecode_runtime"])


def origin_digest(origin: str) -> bytes:
    """What a log is called on a chain."""
    return hashlib.sha256(origin.encode()).digest()


@contextmanager
def _told() -> Iterator[None]:
    """What web3 and the network raise, as one error. The address of a node may hold a secret, so
    messages of the network, which repeat it, are not passed on."""
    web3 = optional("web3", extra="chain")
    try:
        yield
    except web3.exceptions.ContractLogicError as error:
        raise ChainFault(f"the contract refuses: {error.message}") from None
    except web3.exceptions.Web3RPCError as error:
        said = (error.rpc_response or {}).get("error", {})
        raise ChainFault(f"the node answers: {said.get('message', type(error).__name__)}") from None
    except VoileError:
        raise
    # requests raises OSError; an answer that is no JSON, or no number where one is due, ValueError
    except (OSError, ValueError, web3.exceptions.Web3Exception) as error:
        raise ChainFault(
            f"the node could not be asked ({type(error).__name__}): is the address of --rpc right, "
            "and does a node of this chain answer there?"
        ) from None


def connect(rpc: str, chain_id: int) -> Any:
    """A node of this chain; `ChainFault` if it is of another one."""
    web3 = optional("web3", extra="chain")
    if not rpc.startswith(("http://", "https://")):
        raise InvalidInput("--rpc: expected http://... or https://... of a node")
    node = web3.Web3(web3.HTTPProvider(rpc, request_kwargs={"timeout": _TIMEOUT}))
    with _told():
        found = node.eth.chain_id
    if found != chain_id:
        raise ChainFault(
            f"the node is of chain {found}, expected chain {chain_id}; nothing was sent"
        )
    return node


@dataclass(frozen=True)
class Anchors:
    """The contract of a policy, behind a node; made by `open_anchors`."""

    node: Any
    address: AnchorAddress
    confirmations: int = CONFIRMATIONS

    @property
    def contract(self) -> Any:
        where = self.node.to_checksum_address(self.address.contract)
        return self.node.eth.contract(address=where, abi=shipped_contract().abi)

    def latest(self, origin: str, *, confirmations: int | None = None) -> Checkpoint | None:
        """The largest checkpoint of a log, as of a block that is deep enough; None if there is
        none."""
        depth = self.confirmations if confirmations is None else confirmations
        with _told():
            block = max(0, self.node.eth.block_number - depth + 1)
            self._check_code(block)
            call = self.contract.functions.latest(origin_digest(origin))
            size, root = call.call(block_identifier=block)
        return Checkpoint(origin, size, bytes(root)) if size else None

    def _check_code(self, block: int) -> None:
        """A contract with other code may answer anything."""
        code = self.node.eth.get_code(self.contract.address, block)
        if bytes(code) != bytes.fromhex(shipped_contract().bytecode_runtime.removeprefix("0x")):
            raise VerificationFailed(
                f"{self.address}: the code there{' (none)' if not code else ''} is not voile's "
                f"contract as of block {block}; is the anchor in the policy right, and was the "
                "contract deployed long enough ago?"
            )

    def anchor(
        self, checkpoint: Checkpoint, account: Any, terms: DeliveryTerms
    ) -> MinedTransaction:
        """Put a checkpoint there, and wait until it counts."""
        said = [origin_digest(checkpoint.origin), checkpoint.size, checkpoint.root]
        with _told():
            contract = self.contract
            data = contract.encode_abi("anchor", args=said)
            call = _call(self.node, account, {"to": contract.address, "data": data})
        return deliver(_AccountOnChain(self.node, account), call, terms)


def open_anchors(rpc: str, address: AnchorAddress, confirmations: int = CONFIRMATIONS) -> Anchors:
    """The contract that a policy names, asked through this node."""
    return Anchors(connect(rpc, address.chain_id), address, confirmations)


def deploy(
    rpc: str, chain_id: int, account: Any, terms: DeliveryTerms
) -> tuple[AnchorAddress, MinedTransaction]:
    """A new contract that this account owns."""
    node, contract = connect(rpc, chain_id), shipped_contract()
    with _told():
        made = node.eth.contract(abi=contract.abi, bytecode=contract.bytecode).constructor()
        call = _call(node, account, {"data": made.data_in_transaction})
    mined = deliver(_AccountOnChain(node, account), call, terms)
    assert mined.contract is not None
    return AnchorAddress(chain_id, mined.contract.lower()), mined


# --- the account that pays -----------------------------------------------------------------------


def open_account(keystore: Path, passphrase: str) -> Any:
    """The account in an encrypted keystore (Web3 Secret Storage, version 3)."""
    accounts = optional("eth_account", extra="chain")
    content = read_file(keystore, LARGEST_TEXT)
    try:
        return accounts.Account.from_key(accounts.Account.decrypt(content.decode(), passphrase))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # eth_keyfile says "MAC mismatch" for a wrong passphrase and nothing of the key itself.
        raise InvalidInput(
            f"{keystore}: not an encrypted keystore that this passphrase opens "
            f"({type(error).__name__})"
        ) from None


def new_keystore(passphrase: str) -> tuple[str, bytes]:
    """Address and keystore of a new account, whose key the operating system's entropy makes."""
    accounts = optional("eth_account", extra="chain")
    account = accounts.Account.create()
    content = json.dumps(account.encrypt(passphrase), indent=1) + "\n"
    return str(account.address), content.encode()


@dataclass(frozen=True)
class _AccountOnChain:
    """`Chain` for one account behind one node."""

    node: Any
    account: Any

    @_told()
    def mined_count(self) -> int:
        return int(self.node.eth.get_transaction_count(self.account.address, "latest"))

    @_told()
    def waiting_count(self) -> int:
        return int(self.node.eth.get_transaction_count(self.account.address, "pending"))

    @_told()
    def height(self) -> int:
        return int(self.node.eth.block_number)

    @_told()
    def usual_fees(self) -> Fees:
        base = self.node.eth.get_block("latest").get("baseFeePerGas")
        if base is None:
            price = int(self.node.eth.gas_price)
            return Fees(price, price, base_fee=False)
        tip = int(self.node.eth.max_priority_fee)
        return Fees(2 * int(base) + tip, tip)  # six full blocks in a row double the base fee

    def sign(self, call: dict[str, Any], nonce: int, fees: Fees) -> tuple[str, bytes]:
        paid = (
            {"maxFeePerGas": fees.most, "maxPriorityFeePerGas": fees.tip}
            if fees.base_fee
            else {"gasPrice": fees.most}
        )
        signed = self.account.sign_transaction({**call, **paid, "nonce": nonce})
        return self.node.to_hex(signed.hash), bytes(signed.raw_transaction)

    @_told()
    def send(self, signed: bytes) -> None:
        exceptions = optional("web3", extra="chain").exceptions
        try:
            self.node.eth.send_raw_transaction(signed)
        except exceptions.Web3RPCError as error:
            said = str((error.rpc_response or {}).get("error", {}).get("message", error)).lower()
            if not any(known in said for known in ("already known", "already imported")):
                raise

    @_told()
    def knows(self, transaction: str) -> bool:
        exceptions = optional("web3", extra="chain").exceptions
        try:
            return self.node.eth.get_transaction(transaction) is not None
        except exceptions.TransactionNotFound:
            return False

    @_told()
    def mined(self, transaction: str) -> MinedTransaction | None:
        exceptions = optional("web3", extra="chain").exceptions
        try:
            found = self.node.eth.get_transaction_receipt(transaction)
        except exceptions.TransactionNotFound:
            return None
        return MinedTransaction(
            transaction,
            int(found["blockNumber"]),
            self.node.to_hex(found["blockHash"]),
            found["status"] == 1,
            int(found["gasUsed"]),
            found.get("contractAddress"),
        )


def _call(node: Any, account: Any, call: dict[str, Any]) -> dict[str, Any]:
    """A call that still lacks number and fees. The node tries it out: what the contract refuses is
    known before anything is paid."""
    gas = int(node.eth.estimate_gas({**call, "from": account.address}) * _SPARE_GAS)
    return {**call, "gas": gas, "value": 0, "chainId": node.eth.chain_id}


# --- Put a log's latest checkpoint on a chain ----------------------------------------------------
# 1. The log extends the copy of its last checkpoint, and all cosignatures that the policy asks for
#    are there: what nobody would verify is not anchored.
# 2. It extends what the chain holds already. A log that was set back stops here: the chain alone
#    tells, whatever became of copies and witnesses.
# 3. What the chain holds already is not sent again: a command that was broken off is run again.
# 4. After enough confirmations the chain is read once more.


@dataclass(frozen=True)
class AnchorResult:
    """What stands on the chain after the command.

    Args:
        mined: the transaction; None where the chain held the checkpoint already.
    """

    checkpoint: Checkpoint
    address: AnchorAddress
    mined: MinedTransaction | None = None


def deploy_anchor(
    rpc: str, chain_id: int, policy: Path, rules: Policy, account: Any, terms: DeliveryTerms
) -> tuple[Policy, MinedTransaction]:
    """Deploy the contract, and write its address into the policy file."""
    if rules.anchor is not None:
        raise InvalidInput(
            f"{policy}: names {rules.anchor} already; take that line out to begin with another "
            "contract"
        )
    address, mined = deploy(rpc, chain_id, account, terms)
    named = replace(rules, anchor=address)
    replace_file(policy, str(named).encode())
    return named, mined


def anchors_of(policy: Policy, rpc: str, confirmations: int) -> Anchors:
    """The contract that the policy names."""
    if policy.anchor is None:
        raise InvalidInput(
            "the policy names no contract. Create one with `voile audit anchor --deploy`, which "
            'adds `anchor = "eip155:CHAIN:0x..."`'
        )
    return open_anchors(rpc, policy.anchor, confirmations)


def anchor_log(
    storage: Storage,
    log: AuditLog,
    policy: Policy,
    anchors: Anchors,
    account: Any,
    terms: DeliveryTerms,
) -> AnchorResult:
    """The latest published checkpoint, put on the chain."""
    checkpoint = _publishable(storage, log, policy)  # step 1
    known = anchors.latest(log.origin, confirmations=1)
    if known is not None and not storage.submit(lambda t: log.extends(t, known)):  # step 2
        raise VerificationFailed(
            f"the chain holds a checkpoint of {known.size} records of {log.origin!r}, and the log "
            f"in the database, of {storage.submit(log.head).size}, does not extend it: it was set "
            "back (restored from an old backup?) or changed. Nothing was sent"
        )
    mined = None
    if known is None or known.size < checkpoint.size:  # step 3
        mined = anchors.anchor(checkpoint, account, terms)
    found = anchors.latest(log.origin, confirmations=1)  # step 4
    if found is None or found.size < checkpoint.size:
        raise VerificationFailed(
            "the transaction is confirmed, but the chain does not hold the checkpoint: check "
            "that --rpc names the node that received it"
        )
    return AnchorResult(found, anchors.address, mined)


def _publishable(storage: Storage, log: AuditLog, policy: Policy) -> Checkpoint:
    storage.submit(log.check)
    note = latest_checkpoint(storage)
    if note is None:
        raise InvalidInput("no checkpoint was published yet; run `voile audit checkpoint` first")
    checkpoint = signed_checkpoint(note, policy)
    if not storage.submit(lambda t: log.extends(t, checkpoint)):
        raise VerificationFailed(
            "the log does not extend its own last checkpoint; nothing was sent"
        )
    if missing := missing_cosignatures(Note.parse(note), policy):
        raise VerificationFailed(
            f"{missing} cosignature(s) required by the policy are missing; `voile audit "
            "checkpoint` collects them. Nothing was sent"
        )
    return checkpoint
