"""The contract, as it is shipped, on a real EVM."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from eth_account import Account
from eth_tester.exceptions import TransactionFailed  # type: ignore[import-untyped]
from tests.chain import LocalChain, served
from tests.contract_compiler import SHIPPED, compiled

from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log import Anchors, DeliveryTerms
from voile.records.audit_log.anchor import (
    connect,
    deploy,
    open_anchors,
    origin_digest,
    shipped_contract,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.delivery import ChainFault
from voile.records.audit_log.notes import Checkpoint
from voile.records.audit_log.policy import AnchorAddress

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
TERMS = DeliveryTerms(confirmations=1, patience=5.0, poll=0.01)


@pytest.fixture
def chain() -> LocalChain:
    return LocalChain()


@pytest.fixture
def url(chain: LocalChain) -> Iterator[str]:
    with served(chain) as address:
        yield address


@pytest.fixture
def payer(chain: LocalChain) -> Any:
    account = Account.create()
    chain.fund(account.address)
    return account


@pytest.fixture
def anchors(chain: LocalChain, url: str, payer: Any) -> Anchors:
    address, _ = deploy(url, chain.chain_id, payer, TERMS)
    return open_anchors(url, address, 1)


def checkpoint(size: int, origin: str = "example.org/clinic") -> Checkpoint:
    return Checkpoint(origin, size, bytes([size]) * 32)


def test_what_is_shipped_is_what_the_source_compiles_to() -> None:
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    assert shipped == compiled(), "run: python -m tests.contract_compiler"


def test_the_largest_checkpoint_of_each_log_is_kept(anchors: Anchors, payer: Any) -> None:
    assert anchors.latest("example.org/clinic") is None
    for size in (3, 7):
        anchors.anchor(checkpoint(size), payer, TERMS)
    anchors.anchor(checkpoint(5, "another"), payer, TERMS)
    assert anchors.latest("example.org/clinic") == checkpoint(7)
    assert anchors.latest("another") == checkpoint(5, "another")


@pytest.mark.parametrize("size", [2, 3])
def test_sizes_only_grow(anchors: Anchors, payer: Any, size: int) -> None:
    anchors.anchor(checkpoint(3), payer, TERMS)
    with pytest.raises(ChainFault, match="sizes only grow"):
        anchors.anchor(replace(checkpoint(size), root=bytes(32)), payer, TERMS)
    assert anchors.latest("example.org/clinic") == checkpoint(3)


def test_only_the_owner_anchors_and_ownership_goes_over_in_two_steps(
    chain: LocalChain, anchors: Anchors, payer: Any
) -> None:
    heir, stranger = (chain.node.eth.accounts[n] for n in (1, 2))
    contract = chain.node.eth.contract(
        address=chain.node.to_checksum_address(anchors.address.contract),
        abi=shipped_contract().abi,
    )
    said = (origin_digest("x"), 1, bytes(32))

    def sent(call: Any, by: str) -> bool:
        try:
            call.transact({"from": by})
        except TransactionFailed:
            return False
        return True

    owner = Account.create()
    chain.fund(owner.address)
    assert not sent(contract.functions.anchor(*said), stranger)
    assert not sent(contract.functions.offer_ownership(stranger), stranger)
    assert not sent(contract.functions.accept_ownership(), stranger)
    _as(chain, payer, contract.functions.offer_ownership(heir))
    assert not sent(contract.functions.accept_ownership(), stranger)
    assert contract.functions.owner().call() == payer.address, "until it is accepted"
    assert sent(contract.functions.accept_ownership(), heir)
    assert contract.functions.owner().call() == heir
    assert not sent(contract.functions.accept_ownership(), heir), "the offer is used up"
    assert sent(contract.functions.anchor(*said), heir)
    with pytest.raises(ChainFault, match="only the owner"):
        anchors.anchor(checkpoint(9), payer, TERMS)
    names = ("OwnershipTransferred", "OwnershipOffered", "CheckpointAnchored")
    logs = {n: contract.events[n]().get_logs(from_block=0) for n in names}
    assert {name: len(found) for name, found in logs.items()} == dict(
        zip(names, (2, 1, 1), strict=True)
    )
    assert logs["CheckpointAnchored"][0]["args"] == {"origin": said[0], "size": 1, "root": said[2]}


def _as(chain: LocalChain, account: Any, call: Any) -> None:
    built = call.build_transaction(
        {
            "from": account.address,
            "nonce": chain.node.eth.get_transaction_count(account.address),
            "gas": 200_000,
            "gasPrice": 10**10,
        }
    )
    chain.node.eth.send_raw_transaction(account.sign_transaction(built).raw_transaction)


def test_what_is_not_deep_enough_does_not_count(
    chain: LocalChain, anchors: Anchors, payer: Any
) -> None:
    chain.mine(5)
    anchors.anchor(checkpoint(3), payer, TERMS)
    assert anchors.latest("example.org/clinic", confirmations=2) is None
    chain.mine()
    assert anchors.latest("example.org/clinic", confirmations=2) == checkpoint(3)


def test_another_chain_another_contract_and_no_contract_are_refused(
    chain: LocalChain, url: str
) -> None:
    with pytest.raises(ChainFault, match="expected chain 1"):
        connect(url, 1)
    empty = AnchorAddress(chain.chain_id, "0x" + "11" * 20)
    with pytest.raises(VerificationFailed, match="none"):
        open_anchors(url, empty, 1).latest("x")
    # Ten bytes of code that answer every call with the number 42.
    code = bytes.fromhex("600a600c600039600a6000f3602a60005260206000f3")
    made = chain.node.eth.send_transaction({"from": chain.node.eth.accounts[0], "data": code})
    address = chain.node.eth.get_transaction_receipt(made)["contractAddress"]
    other = AnchorAddress(chain.chain_id, str(address).lower())
    with pytest.raises(VerificationFailed, match="not voile's contract"):
        open_anchors(url, other, 1).latest("x")


def test_no_secret_of_an_address_is_told() -> None:
    with pytest.raises(ChainFault) as caught:
        connect("http://127.0.0.1:9/v2/my-secret", 1)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput):
        connect("ftp://127.0.0.1", 1)


def test_a_transaction_that_the_node_forgot_is_anchored_all_the_same(
    chain: LocalChain, anchors: Anchors, payer: Any
) -> None:
    chain.lose = 2
    anchors.anchor(checkpoint(3), payer, TERMS)
    assert chain.lose == 0
    assert anchors.latest("example.org/clinic") == checkpoint(3)


def test_nothing_but_digest_size_and_root_is_sent(
    chain: LocalChain, anchors: Anchors, payer: Any
) -> None:
    mined = anchors.anchor(checkpoint(3), payer, TERMS)
    data = bytes(chain.node.eth.get_transaction(mined.transaction)["input"])  # type: ignore[arg-type]
    assert data[4:] == origin_digest("example.org/clinic") + (3).to_bytes(32) + b"\x03" * 32


def test_addresses_have_one_spelling() -> None:
    text = "eip155:1:0x" + "ab" * 20
    assert str(AnchorAddress.parse(text)) == text
    assert str(AnchorAddress.parse(text.replace("ab", "AB"))) == text
    for wrong in ("eip155:0:0x" + "ab" * 20, "eip155:1:0xab", text + "a", "1:" + text, ""):
        with pytest.raises(Malformed):
            AnchorAddress.parse(wrong)


def test_the_package_loads_no_web3() -> None:
    loaded = "{'web3', 'eth_account'} & set(sys.modules)"
    code = f"import sys, voile.records.audit_log.anchor; print({loaded})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


@pytest.mark.parametrize("body", [b"<html>", b'{"jsonrpc": "2.0", "id": 0, "result": "zz"}'])
def test_a_node_that_answers_something_else_is_one_clear_error(body: bytes) -> None:
    class Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Not to the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ChainFault, match="could not be asked"):
            connect(f"http://127.0.0.1:{server.server_address[1]}", 1)
        server.shutdown()
