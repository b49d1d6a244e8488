"""A real EVM (py-evm) behind JSON-RPC over HTTP on this machine, with the faults of real nodes."""

from __future__ import annotations

import importlib
import json
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from eth_account import Account

# py-evm raises the limit of the whole process when it is imported, here or by whoever imported it
# first; with a higher one, JSON that is nested too deeply ends the process instead of raising.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    importlib.import_module("eth")
sys.setrecursionlimit(1000)  # Python's own
ETHER = 10**18


class LocalChain:
    """What a test can do to a chain besides asking it.

    Attributes:
        lose: so many raw transactions are accepted and forgotten.
        silent: so many requests are answered with an error of the server.
        asked: methods that were called, in order.
    """

    def __init__(self, *, mining: bool = True) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from eth_tester import (  # type: ignore[import-untyped]
                EthereumTester,
                PyEVMBackend,
            )
            from web3 import EthereumTesterProvider, Web3

            tester = EthereumTester(PyEVMBackend(), auto_mine_transactions=mining)
            self.tester = tester
            self.node = Web3(EthereumTesterProvider(tester))
        self.lose, self.silent = 0, 0
        self.asked: list[str] = []
        self._turn = threading.Lock()

    @property
    def chain_id(self) -> int:
        return int(self.node.eth.chain_id)

    def fund(self, address: str, *, ether: int = 10) -> None:
        self.node.eth.send_transaction(
            {"from": self.node.eth.accounts[0], "to": address, "value": ether * ETHER}  # type: ignore[typeddict-item]
        )
        if not self.tester.auto_mine_transactions:
            self.mine()

    def mine(self, blocks: int = 1) -> None:
        self.tester.mine_blocks(blocks)

    def answer(self, method: str, params: list[Any]) -> dict[str, Any]:
        with self._turn:
            self.asked.append(method)
            if method == "eth_sendRawTransaction" and self.lose:
                self.lose -= 1
                return {"result": self.node.to_hex(self.node.keccak(hexstr=params[0]))}
            if method == "eth_maxPriorityFeePerGas":
                return {"result": hex(10**9)}
            return self._ask(method, params)

    def _ask(self, method: str, params: list[Any]) -> dict[str, Any]:
        from eth_tester.exceptions import TransactionFailed  # type: ignore[import-untyped]
        from web3.exceptions import ContractLogicError, Web3Exception

        try:
            result = self.node.manager.request_blocking(method, params)  # type: ignore[arg-type]
            return {"result": _written(result)}
        except (TransactionFailed, ContractLogicError) as error:
            said = str(error.args[0]) if error.args else "execution reverted"
            return {"error": {"code": 3, "message": f"execution reverted: {said}"}}
        except Web3Exception as error:
            if "not found" in str(error).lower():
                return {"result": None}
            return {"error": {"code": -32000, "message": str(error)[:200]}}
        except Exception as error:
            return {"error": {"code": -32000, "message": f"{type(error).__name__}: {error}"[:200]}}


def keystore(passphrase: str) -> tuple[str, str]:
    """Address and keystore of a new account; the keystores of tests need not resist guessing."""
    account = Account.create()
    content = Account.encrypt(account.key, passphrase, kdf="pbkdf2", iterations=1)
    return account.address, json.dumps(content)


def _written(value: Any) -> Any:
    """As JSON-RPC writes numbers and bytes."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, dict) or hasattr(value, "items"):
        return {name: _written(item) for name, item in value.items()}
    return [_written(item) for item in value]


@contextmanager
def served(chain: LocalChain) -> Iterator[str]:
    """The URL of the chain's node."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if chain.silent:
                chain.silent -= 1
                self.send_error(503)
                return
            reply = {"jsonrpc": "2.0", "id": body["id"]}
            reply |= chain.answer(body["method"], body.get("params", []))
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
