"""How many members an attacker would name, released by the party whose rows they are.

The agreement reserves a part of every party's epsilon for it, so the very account that paid for the
training pays for the count, and what was promised to the rows covers both.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from voile.app.artefact import Artefact, load_artefact
from voile.app.explain import ReleaseService
from voile.app.explain.files import RECEIPT
from voile.app.federate.agreement import SERVER
from voile.app.federate.books import caller_of, purpose_of
from voile.app.federate.config import NodeFile
from voile.app.federate.files import NODE_FILE, read_beside, read_party
from voile.app.federate.party import Party
from voile.app.federate.tables import open_records
from voile.app.report import check_log
from voile.assess.members_count import (
    MembersCount,
    MembersFinding,
    OpenThreshold,
    PrivateMembersCount,
    count_event,
)
from voile.core.atomic_file import check_output, replace_file
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.input_file import read_file
from voile.core.schema import Schema
from voile.datasets.tables import read_protected_table
from voile.federation import digest_of_arrays
from voile.pipelines.tables import TableRecords
from voile.privacy.events import from_dict
from voile.records.audit_log import FederationRoundRecord, decode_record, record_lines
from voile.records.audit_log.publishing import RECORDS_FILE
from voile.records.ledger import recent_charges
from voile.records.ledger.event_text import event_text
from voile.records.storage import Reader
from voile.records.vault import Place, Vault, open_vault_at
from voile.release.silence import silenced

# --- Are rows that nobody is said to protect copies of a party's own? For the party's eyes only --
# The answer depends on protected rows. So it refuses nothing and changes no text, status or
# released file: it is a `MembersFinding`, written to one folder whatever it says.


def find_copied_rows(schema: Schema, dataset: str, members: Path, others: Path) -> MembersFinding:
    """How many other rows are rows of the party too, by digests of whole rows.

    As read, by features and label: that also finds a copy in another file format or column order.
    As written, by the cells of all columns that both files have. Of few categories many rows are
    alike by chance: how often other rows are like each other tells how many to expect. A copy of
    which a value in each row was changed is not found.
    """
    with silenced():
        tables = [read_protected_table(path) for path in (members, others)]
        both = [name for name in tables[0] if name in tables[1]]
        own_written, written = (_digests(zip(*(t[n] for n in both), strict=True)) for t in tables)
        own_read, read = (_as_read(TableRecords.read(schema, table)) for table in tables)
        times = Counter(read)
        figures: dict[str, float] = {
            "other rows": len(written),
            "other rows that are the party's, as written": _found(written, own_written),
            "other rows that are the party's, as read": _found(read, own_read),
            "other rows that are like another of them, as read": sum(times[d] > 1 for d in read),
        }
    return MembersFinding("copied rows", dataset, figures)


def _found(rows: list[bytes], own: list[bytes]) -> int:
    known = set(own)
    return sum(row in known for row in rows)


def _as_read(records: TableRecords) -> list[bytes]:
    readable = records.readable()
    return _digests(zip(readable.rows.tolist(), readable.labels.tolist(), strict=True))


def _digests(rows: Iterable[tuple[Any, ...]]) -> list[bytes]:
    texts = ("\0".join(map(str, row)) for row in rows)
    return [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]


# --------------------------------------------------------------------------------------------------


FIGURE: Final = "members-count.txt"


@dataclass(frozen=True, eq=False, repr=False)
class MembersCounting:
    """All that is needed to count; nothing about members is in what it raises.

    Args:
        artefact: whose model is attacked.
        party: whose rows are counted; its books lie in its folder.
        threshold: fixed on rows that nobody protects.
        copied: whether these rows are copies of the party's; for the party alone.
    """

    artefact: Artefact
    party: Party
    threshold: OpenThreshold
    copied: MembersFinding

    @classmethod
    def read(cls, artefact: Path, node: Path, others: Path) -> Self:
        """Read all of it, and see that it can be paid for; nothing is charged.

        Args:
            artefact: of a federation that reserved a count of members.
            node: folder of the party, with its `node.toml` and its books.
            others: rows that nobody protects, with labels, on which the threshold is fixed.
        """
        opened = load_artefact(artefact)
        if opened.settings.get("members_count") is None:
            raise Refused(
                f"{artefact}: its agreement reserves no budget to count members. Set "
                "`members_count = 0.1` under [privacy] in federation.toml before you train"
            )
        party = read_party(opened.schema, node, apart_from=others)
        threshold = OpenThreshold.on(opened.network, open_records(opened.schema, others))
        check_model(opened)
        copied = find_copied_rows(
            opened.schema, opened.name, read_beside(node / NODE_FILE, NodeFile).table, others
        )
        found = cls(opened, party, threshold, copied)
        found._check_place()
        with found._books() as vault:
            ReleaseService(vault).preview(found._release(vault), payer=found.account)
        return found

    @property
    def account(self) -> str:
        """Which the party charged with its part in the training."""
        rows = self.artefact.history
        names = {row.account for row in rows if row.client == self.party.name and row.account}
        if len(names) != 1:
            raise Refused(f"{self.artefact.folder}: {self.party.name!r} did not take part")
        return names.pop()

    @property
    def path(self) -> Path:
        """Where the figure is written, as the log commits to it; its receipt lies beside it."""
        return self.party.folder / FIGURE

    @property
    def receipt(self) -> Path:
        return self.path.with_suffix(RECEIPT)

    def write_copied_rows(self) -> Path:
        """Says where it wrote how many of the other rows are the party's, and nothing about it."""
        return self.copied.write(self.party.folder)

    def release(self, *, caller: str) -> MembersCount:
        """Count, charge and write down; asked again, it gives the same again at no cost."""
        with self._books() as vault:
            release, service = self._release(vault), ReleaseService(vault)
            try:
                counted = service.obtain(
                    release, payer=self.account, caller=caller, subject=release.name
                )
            except BudgetExceeded as spent:
                raise BudgetExceeded(
                    f"{self.party.name!r} has already counted its members with another threshold, "
                    f"and may count only once: {spent}",
                    remaining=spent.remaining,
                    requested=spent.requested,
                ) from spent
            assert counted.charge is not None
            replace_file(self.path, counted.to_bytes())
            replace_file(self.receipt, bytes(service.receipt(counted.charge)))
        return counted

    def _check_place(self) -> None:
        """Refuse to overwrite anything but an earlier copy of the same figure."""
        for path in (self.path, self.receipt):
            check_output(path)
        self.copied.check_place(self.party.folder)
        named = json.dumps(self.artefact.name, ensure_ascii=False).encode()
        if self.path.exists() and named not in read_file(self.path):
            raise InvalidInput(
                f"{self.path}: exists and is not a count of {self.artefact.name!r}; move it away "
                "first"
            )

    @contextmanager
    def _books(self) -> Iterator[Vault]:
        with open_vault_at(Place.within(self.party.folder)) as vault:
            vault.storage.read_snapshot(lambda t: self._check_paid(vault, t))
            yield vault

    def _release(self, vault: Vault) -> PrivateMembersCount:
        declared, found = self.artefact.settings["clients"][self.party.name], self.party.records
        if declared != len(found):
            raise Refused(
                f"{self.party.name!r} trained on {declared} rows and now has {len(found)}: pass "
                "the rows it was trained on"
            )
        return PrivateMembersCount(
            protected=vault.account(self.account).protected,
            epsilon=self.artefact.settings["members_count"],
            delta=0.0,
            origins=[self.artefact.origin],
            model=self.artefact.network,
            members=found,
            threshold=self.threshold,
        )

    def _check_paid(self, vault: Vault, t: Reader) -> None:
        """The model was charged to this very account, round by round, and by this agreement.

        What an artefact says is not believed: its rounds are looked up in the party's own journal.
        """
        mine = [row for row in self.artefact.history if row.client == self.party.name]
        said = Counter(
            (purpose_of(row.stage, row.round), event_text(from_dict(json.loads(row.event))))
            for row in mine
            if row.outcome.counts
        )
        caller = caller_of(self.artefact.name, self.artefact.settings["agreement"])
        charges = recent_charges(vault.ledger, t, self.account, since=-math.inf)
        paid = Counter((each.purpose, each.event) for each in charges if each.caller == caller)
        if not said or not said <= paid:
            raise Refused(
                f"{self.party.folder}: account {self.account!r} was not charged as "
                f"{self.artefact.folder} states: the model may reveal what was never paid for"
            )
        relation = vault.ledger.account(t, self.account).protected.relation
        wanted = count_event(self.artefact.settings["members_count"], relation)
        if wanted not in vault.ledger.account(t, self.account).plan:
            raise Refused(
                f"{self.party.folder}: the plan of {self.account!r} has no count of members at "
                f"ε = {wanted.epsilon:g}: other terms were agreed on"
            )


def check_model(artefact: Artefact) -> None:
    """Refuse a model that is not the one which came of the rounds in the server's signed log.

    The model may be calibrated: then the arrays before that are the ones in the log. The manifest
    of an artefact is not signed, so its digests alone prove nothing.
    """
    digest = digest_of_arrays(artefact.trained)
    stages = [name for name, each in artefact.settings["arrays"].items() if each == digest]
    wanted = hashlib.sha256(digest.encode()).digest()
    log = artefact.log_folder(SERVER) / RECORDS_FILE
    last: dict[str, bytes] = {}
    for content in record_lines(io.BytesIO(read_file(log))):
        record = decode_record(content)
        if isinstance(record, FederationRoundRecord):
            last[record.federation] = record.model
    known = any(last.get(f"{artefact.name}: {stage}") == wanted for stage in stages)
    if check_log(artefact, SERVER).failed is not None or not known:
        raise Refused(
            f"{artefact.folder}: its model is not the one that the server's signed log speaks of"
        )
