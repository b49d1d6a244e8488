"""How parties on machines of their own come to an agreement: each makes its keys where it is.

A party hands over its lines of `federation.toml`, the server adds its own key, and everybody gets
the same file. No private key leaves the machine that it was made on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voile.app.federate.agreement import SERVER, origin_of
from voile.app.federate.config import FederationFile, NodeFile, ServerFile
from voile.app.federate.files import SERVER_FILE, beside
from voile.app.federate.party import check_name, party_key
from voile.app.toml_file import TomlFile
from voile.core.errors import InvalidInput
from voile.core.schema.locate import quoted
from voile.datasets.tables import check_cells_separate, read_protected_table


@dataclass(frozen=True)
class Enrolment:
    """What a party hands over before there is an agreement: all of it is public.

    Args:
        rows: how many records its file has.
        key: that its log, and what its node says, is signed with.
        flower_key: where the key lies that the SuperLink will know it by.
    """

    name: str
    rows: int
    key: str
    flower_key: Path

    @property
    def lines(self) -> str:
        """For `federation.toml`."""
        return (
            f"[[parties]]\nname = {quoted(self.name)}\nrows = {self.rows}\n"
            f"key = {quoted(self.key)}\n"
        )


def enrol(path: Path) -> Enrolment:
    """From a `node.toml`; the key of its log is made beside it, if there is none."""
    node = beside(path, NodeFile)
    if node.superlink is None:
        raise InvalidInput(f"{path}: needs [superlink] with address and root_certificates")
    if node.accepts.columns:
        check_cells_separate(node.data)  # a line break in a private cell would add to the count
    rows = len(next(iter(read_protected_table(node.data).values()), ()))
    key = party_key(path.parent, origin_of(node.name, "node"))
    return Enrolment(node.name, rows, str(key), node.superlink.key)


def server_key_line(path: Path) -> str:
    """The server's line for this `federation.toml`; its key is made in its folder."""
    agreed = TomlFile.read(path).checked(FederationFile)
    server = beside(path.parent / SERVER_FILE, ServerFile)
    check_name(agreed.name, server.output)
    key = party_key(server.output, origin_of(agreed.name, SERVER))
    return f"server_key = {quoted(str(key))}"
