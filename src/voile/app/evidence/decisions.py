"""A page for each decision that an explanation was given for.

GDPR 15(1)(h) and 22, AI Act 86: what the system contributed follows from log and ledger. What it
was used for, and by whom, only its deployer can say: those fields stay visibly blank.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from voile.app.evidence.facts import Answer, LogFacts
from voile.app.evidence.lines import (
    EvidenceDocument,
    EvidenceLine,
    Link,
    Section,
    Statements,
    missing,
    present,
    to_file,
    to_record,
)
from voile.app.evidence.promises import promise_in_words
from voile.app.explain import ReleaseService
from voile.core.description import Description
from voile.core.errors import InvalidInput, UnreadableFile, VoileError
from voile.core.explanation import Explanation
from voile.core.input_file import read_file
from voile.core.schema import Schema
from voile.records.audit_log import (
    Policy,
    Receipt,
    ReleaseRecord,
    RowReceipt,
    explanation_bytes,
    explanation_rows,
    verify_receipt,
    verify_row_receipt,
)

_ROW_PROOF: Final = ".row-proof"
_PROOF: Final = ".tlog-proof"
_SAVED: Final = ".voile"
_FACTORS: Final = 5
POLICY: Final = "audit-policy.toml"


@dataclass(frozen=True)
class SavedAnswer:
    """An explanation that somebody saved, with a receipt that verifies.

    Args:
        record: its number in the log.
        row: counted from 1, of a call that explained several; None for a whole call.
    """

    record: int
    row: int | None
    explanation: Explanation


@dataclass(frozen=True)
class DecisionPage:
    """One decision, as the person whom it is about may see it.

    Args:
        row: counted from 1, where the call explained several.
        described: None where the answer is not at hand.
        warnings: what the officer should look at.
        command: verifies the receipt, in the folder of the page; empty where there is none.
    """

    view: ClassVar[str] = "decision page"

    record: int
    row: int | None
    time: int
    document: EvidenceDocument
    described: Description | None = field(repr=False)
    warnings: tuple[str, ...]
    command: str

    @property
    def name(self) -> str:
        return self.document.name

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        place = {"record": self.record, "row": self.row, "time": self.time}
        return {**place, "warnings": list(self.warnings), **self.document.to_dict()}


def read_saved_answers(
    folders: Iterable[Path], policy: Policy
) -> tuple[list[SavedAnswer], list[str]]:
    """Explanations with a receipt beside them, and remarks on what cannot be used."""
    found, remarks = [], []
    for path in (each for folder in folders for each in sorted(_files(folder))):
        try:
            found.append(_saved_answer(path, policy))
        except (VoileError, ValueError) as error:  # a receipt of another shape is a ValueError
            remarks.append(f"{path}: not used: {error}")
    return found, remarks


def _files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such folder")
    return folder.rglob(f"*{_SAVED}")


def _saved_answer(path: Path, policy: Policy) -> SavedAnswer:
    explanation = Explanation.load(path)
    row, whole = path.with_suffix(_ROW_PROOF), path.with_suffix(_PROOF)
    if row.exists():
        content = read_file(row)
        report = verify_row_receipt(content, policy, row=next(explanation_rows(explanation)))
        parsed = RowReceipt.parse(content)
        saved = SavedAnswer(parsed.record.index, parsed.number + 1, explanation)
    elif whole.exists():
        content = read_file(whole)
        report = verify_receipt(content, policy, answer=explanation_bytes(explanation))
        saved = SavedAnswer(Receipt.parse(content).index, None, explanation)
    else:
        raise InvalidInput("there is no receipt beside it")
    if not report.verified:
        raise InvalidInput("its receipt does not verify")
    return saved


@dataclass(frozen=True)
class DecisionPages:
    """Makes the pages.

    Args:
        saved: by number of the record, what somebody saved.
        schemas: of rows, for labels and units; the one with the names of an answer is taken.
        remarks: grows by what has no page, and why.
    """

    service: ReleaseService
    facts: LogFacts
    statements: Statements
    saved: Mapping[int, Sequence[SavedAnswer]]
    schemas: Sequence[Schema] = ()
    remarks: list[str] = field(default_factory=list)

    def pages(self, most: int) -> Iterator[tuple[DecisionPage, dict[str, bytes]]]:
        """Newest first, at most so many, each with the files that prove it."""
        made = 0
        for answer in self.facts.answers:
            for row, explanation in self._rows(answer):
                if made == most:
                    return
                made += 1
                yield self._page(answer, row, explanation)

    def _rows(self, answer: Answer) -> Iterator[tuple[int | None, Explanation | None]]:
        """Each person that an answer is about; nothing if it is about many people together."""
        if isinstance(answer.record, ReleaseRecord) and not self._is_erased(answer.record):
            whole = self._stored(answer.record.charge)
            if whole is not None and whole.describe(0).signed:
                yield from _numbered(whole)
            return
        saved = self.saved.get(answer.number, ())
        for each in saved:
            if each.row is None:
                yield from _numbered(each.explanation)
                return
        for each in sorted(saved, key=lambda each: each.row or 0):
            yield each.row, each.explanation
        if saved:
            return
        if isinstance(answer.record, ReleaseRecord):
            said = "its stored answer was erased, so it has no page (voile vault erase)"
            self.remarks.append(f"record {answer.number}: {said}")
            return
        yield None, None

    def _is_erased(self, record: ReleaseRecord) -> bool:
        vault = self.service.vault
        try:
            vault.storage.read_snapshot(lambda t: vault.ledger.paid(t, record.charge))
        except InvalidInput:
            return True
        return False

    def _stored(self, charge: str) -> Explanation | None:
        """None for what is no explanation: tables and moments that models are made from."""
        vault = self.service.vault
        kept = vault.storage.read_snapshot(lambda t: vault.ledger.paid(t, charge).kept)
        try:
            return Explanation.from_bytes(kept.answer)
        except UnreadableFile:
            return None

    def _page(
        self, answer: Answer, row: int | None, explanation: Explanation | None
    ) -> tuple[DecisionPage, dict[str, bytes]]:
        number = answer.number
        name = f"decision-{number}" if row is None else f"decision-{number}-{row}"
        proofs, command = self._proofs(answer)
        described = None if explanation is None else self._described(explanation)
        warnings = self._warnings(answer)
        sections = (
            Section("What the system contributed", self._contributed(name, answer, described)),
            Section("What the deployer states", self._stated(name)),
            Section("Proof", (self._proved(name, answer, proofs),)),
        )
        title = f"Decision of record {number}" + ("" if row is None else f", row {row}")
        about = (
            "For the person whom this is about: GDPR, Articles 15(1)(h) and 22; AI Act, Article 86."
        )
        document = EvidenceDocument(name, title, about, sections)
        page = DecisionPage(number, row, answer.record.time, document, described, warnings, command)
        return page, proofs

    def _described(self, explanation: Explanation) -> Description:
        names = tuple(explanation.feature_names)
        known = (each for each in self.schemas if tuple(each.feature_names) == names)
        return explanation.describe(0, schema=next(known, None))

    def _stated(self, name: str) -> tuple[EvidenceLine, ...]:
        asked = {
            "role": "Role of the system in the decision (AI Act, Article 86(1))",
            "decision": "The decision, and its main elements (AI Act, Article 86(1))",
            "decided_by": "Who decided, and who can change the result (GDPR, Article 22)",
            "consequences": "Significance and envisaged consequences (GDPR, Article 15(1)(h))",
            "contact": "Contact: to give a view, to contest, to reach a person (GDPR, "
            "Article 22(3))",
        }
        return tuple(
            self.statements.line(f"{name}.{key}", text, f"decision.{key}")
            for key, text in asked.items()
        )

    def _contributed(
        self, name: str, answer: Answer, described: Description | None
    ) -> tuple[EvidenceLine, ...]:
        record, link = answer.record, to_record(answer.number)
        when = f"{datetime.fromtimestamp(record.time, UTC):%Y-%m-%d %H:%M} UTC"
        factors = "Main factors, with their uncertainty"
        shown = (
            missing(
                f"{name}.factors",
                factors,
                "The log holds a commitment to this answer. Name the folder of the saved "
                "explanation and its receipt with --answers.",
            )
            if described is None
            else present(f"{name}.factors", factors, _strongest(described), link)
        )
        return (
            present(f"{name}.logic", "Logic involved: what was computed", record.subject, link),
            present(f"{name}.time", "When the system answered", when, link),
            shown,
            _protection(name, answer),
        )

    def _proofs(self, answer: Answer) -> tuple[dict[str, bytes], str]:
        """Receipt and answer of a charge; only what a checkpoint covers, and nothing is signed."""
        number, record = answer.number, answer.record
        if number >= self.facts.signed or not isinstance(record, ReleaseRecord):
            return {}, ""
        if self._is_erased(record):
            return {}, ""
        receipt, saved = f"receipt-{number}{_PROOF}", f"answer-{number}{_SAVED}"
        stored = self._stored(record.charge)
        assert stored is not None
        proofs = {
            receipt: bytes(self.service.receipt(record.charge)),
            saved: stored.to_bytes(),
        }
        words = ("voile", "audit", "verify", receipt, "--answer", saved, "--policy", POLICY)
        return proofs, shlex.join(words)

    def _proved(self, name: str, answer: Answer, proofs: Mapping[str, bytes]) -> EvidenceLine:
        asked, link = "Receipt that proves this answer", to_record(answer.number)
        if proofs:
            found = "Verifies offline, without trust in whoever made this page."
            return present(f"{name}.receipt", asked, found, link, *map(to_file, sorted(proofs)))
        if answer.number >= self.facts.signed:
            later = "No checkpoint covers the record yet: run voile audit checkpoint."
        elif answer.number in self.saved:
            found = "Lies beside the saved explanation, and verifies."
            return present(f"{name}.receipt", asked, found, link)
        else:
            later = "Was handed out with the answer; voile audit receipt writes it again."
        return missing(f"{name}.receipt", asked, later)

    def _warnings(self, answer: Answer) -> tuple[str, ...]:
        free = self.facts.free_models.get(answer.model) if answer.model else None
        if free is None or not isinstance(answer.record, ReleaseRecord):
            return ()
        return (
            "This explanation holds noise, although the same model is explained exactly and at no "
            f"cost (record {free}). People who ask about their own case should get that one.",
        )


def _numbered(whole: Explanation) -> Iterator[tuple[int | None, Explanation]]:
    if len(whole) == 1:
        yield None, whole
        return
    yield from enumerate(whole, start=1)


def _strongest(described: Description) -> str:
    """The strongest features of each output, with their uncertainty."""
    said = []
    for output in described.outputs:
        named = [f"{each.named}: {each.text}" for each in output.strongest_first[:_FACTORS]]
        said.append(f"{output.title}: {'; '.join(named)}")
    return f"{' | '.join(said)} ({described.uncertainty.value})"


def _protection(name: str, answer: Answer) -> EvidenceLine:
    record, asked = answer.record, "What is promised about other people's records"
    link: Link = to_record(answer.number)
    if record.epsilon is None or record.delta is None:
        found = "No privacy guarantee: made from public artefacts, or not covered."
        return present(f"{name}.promise", asked, found, link)
    found = promise_in_words(record)
    return present(f"{name}.promise", asked, found, link)
