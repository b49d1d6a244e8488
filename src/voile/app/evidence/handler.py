"""`voile evidence`, from the command to the folder of pages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final

from voile._version import __version__
from voile.app.calls import Context
from voile.app.commands.evidence import CollectEvidence
from voile.app.evidence.decisions import (
    POLICY,
    DecisionPage,
    DecisionPages,
    SavedAnswer,
    read_saved_answers,
)
from voile.app.evidence.documents import (
    EvidenceSource,
    audit_controls,
    impact_annex,
    technical_documentation,
)
from voile.app.evidence.facts import LogFacts
from voile.app.evidence.lines import RECORDS_PAGE, EvidenceDocument, Standing, Statements
from voile.app.evidence.models import ModelFacts, find_models
from voile.app.evidence.signatures import NOTE, PUBLIC_KEY, ModelSigner
from voile.app.explain import ReleaseService
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger
from voile.core.atomic_file import disk_fault, replace_file
from voile.core.errors import InvalidInput
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.core.rendering import render_html
from voile.core.schema import Schema
from voile.records.audit_log import decode_record
from voile.records.vault import WORKSPACE, Place, Vault, open_vault_at

EVIDENCE: Final = "evidence.json"
STATEMENTS: Final = "statements.toml"
INDEX: Final = "index.html"
_PRIVATE: Final = 0o600


@dataclass(frozen=True)
class CitedRecord:
    """A record that a line links to, as people read it."""

    number: int
    kind: str
    time: int
    facts: Mapping[str, str]


@dataclass(frozen=True)
class EvidenceResult:
    """What was collected.

    Args:
        remarks: what could not be used.
    """

    view: ClassVar[str] = "evidence"

    folder: Path
    facts: LogFacts = field(repr=False)
    documents: Sequence[EvidenceDocument] = field(repr=False)
    decisions: Sequence[DecisionPage] = field(repr=False)
    models: Sequence[ModelFacts] = field(repr=False)
    files: Sequence[str] = field(repr=False)
    remarks: Sequence[str] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Of all lines, by standing."""
        every = [each.counts for each in (*self.documents, *(d.document for d in self.decisions))]
        return {each.value: sum(counts[each.value] for counts in every) for each in Standing}

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What the officer should look at, with the page that it is about."""
        return [(page.name, line) for page in self.decisions for line in page.warnings]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        log = {"origin": self.facts.origin, "size": self.facts.size, "root": self.facts.root}
        return {
            "software": __version__,
            "log": {**log, "signed": self.facts.signed},
            "counts": self.counts,
            "documents": [each.to_dict() for each in self.documents],
            "decisions": [each.to_dict() for each in self.decisions],
            "models": [each.name for each in self.models],
            "files": list(self.files),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True)
class EvidencePage:
    """A document as one page."""

    view: ClassVar[str] = "evidence document"

    document: EvidenceDocument


@dataclass(frozen=True)
class RecordsPage:
    """The records that lines link to."""

    view: ClassVar[str] = "cited records"

    origin: str
    records: Sequence[CitedRecord]


def collect(command: CollectEvidence, context: Context) -> EvidenceResult:
    """Read log, models and statements; then write the folder. Nothing is charged or signed."""
    if os.path.lexists(command.folder):
        raise InvalidInput(f"{command.folder}: exists already; choose another folder")
    statements = Statements.read(command.statements)
    file, place, home = _found(command.workspace)
    if context.service is not None:
        return _collected(command, context, context.service, statements, file, home)
    with open_vault_at(place, signing=None) as vault:
        if file is not None:
            check_ledger(file, vault)
        service = ReleaseService(vault)
        return _collected(command, context, service, statements, file, home)


def _found(workspace: Path) -> tuple[WorkspaceFile | None, Place, Path]:
    """The workspace there, or the usual files of a folder."""
    if not workspace.exists():
        raise InvalidInput(f"{workspace}: no such file or folder")
    if workspace.is_file() or (workspace / WORKSPACE).is_file():
        file = WorkspaceFile.read(workspace)
        return file, file.place, file.folder
    return None, Place.within(workspace), workspace


def _collected(
    command: CollectEvidence,
    context: Context,
    service: ReleaseService,
    statements: Statements,
    file: WorkspaceFile | None,
    home: Path,
) -> EvidenceResult:
    vault = service.vault
    facts = LogFacts.read(vault, command.last)
    models, remarks = find_models(file, home, vault, facts)
    saved, unused = _saved(command.answers, vault)
    files, signed = _signed(models, vault)
    cards = {each.name: f"model-card-{each.name}.md" for each in models}
    files |= {cards[each.name]: render_html(each).encode() for each in models}
    witnesses = None if vault.keeper is None else vault.policy.threshold
    source = EvidenceSource(facts, statements, models, cards, signed, witnesses)
    makers = (technical_documentation, impact_annex, audit_controls)
    documents = tuple(make(source) for make in makers)
    decisions_of = DecisionPages(service, facts, statements, saved, _schemas(file, models))
    made = list(decisions_of.pages(command.last))
    remarks = [*remarks, *unused, *decisions_of.remarks]
    statements.check_known()
    files |= {name: content for _, proofs in made for name, content in proofs.items()}
    if vault.place.policy.exists():
        files[POLICY] = read_file(vault.place.policy, LARGEST_TEXT)
    files[STATEMENTS] = statements.to_toml().encode()
    decisions = [page for page, _ in made]
    for line in remarks:
        context.say(line)
    result = EvidenceResult(command.folder, facts, documents, decisions, models, (), remarks)
    return _written(result, files, vault)


def _schemas(file: WorkspaceFile | None, models: Sequence[ModelFacts]) -> list[Schema]:
    tables = {} if file is None else file.tables.schemas
    paths = [] if file is None else [file.folder / each.file for each in tables.values()]
    own = [each.schema for each in models if each.schema is not None]
    return [*(Schema.load(path) for path in paths if path.is_file()), *own]


def _saved(folders: Iterable[Path], vault: Vault) -> tuple[dict[int, list[SavedAnswer]], list[str]]:
    if vault.keeper is None:
        return {}, []
    found, remarks = read_saved_answers(folders, vault.policy)
    by_record: dict[int, list[SavedAnswer]] = {}
    for each in found:
        by_record.setdefault(each.record, []).append(each)
    return by_record, remarks


def _signed(models: Sequence[ModelFacts], vault: Vault) -> tuple[dict[str, bytes], dict[str, str]]:
    """Signatures of all models, the key that verifies them, and who vouches for it."""
    log_key = None if vault.keeper is None else vault.keeper.signer
    if log_key is None or not models:
        return {}, {}
    signer = ModelSigner(log_key)
    names = {each.name: f"model-{each.name}.sig" for each in models}
    bundles = {names[each.name]: signer.sign(each.folder) for each in models}
    vouched = {PUBLIC_KEY: signer.public_key, NOTE: signer.vouch(bundles)}
    return bundles | vouched, names


def _written(result: EvidenceResult, files: dict[str, bytes], vault: Vault) -> EvidenceResult:
    """Into a new folder, for its owner only; the index last."""
    pages = {f"{each.name}.html": render_html(EvidencePage(each)) for each in result.documents}
    pages |= {f"{each.name}.html": render_html(each) for each in result.decisions}
    cited = list(_cited(result, vault))
    pages[RECORDS_PAGE] = render_html(RecordsPage(result.facts.origin, cited))
    names = sorted([*files, *pages, EVIDENCE, INDEX])
    said = {each.name: getattr(result, each.name) for each in fields(result)}
    done = EvidenceResult(**{**said, "files": names})
    content = (json.dumps(done.to_dict(), indent=2, ensure_ascii=False) + "\n").encode()
    try:
        result.folder.mkdir(mode=0o700)
    except OSError as error:
        raise disk_fault(result.folder, error) from error
    whole = {name: page.encode() for name, page in pages.items()}
    for name, each in {**files, **whole, EVIDENCE: content}.items():
        replace_file(result.folder / name, each, mode=_PRIVATE)
    replace_file(result.folder / INDEX, render_html(done).encode(), mode=_PRIVATE)
    return done


def _cited(result: EvidenceResult, vault: Vault) -> Iterator[CitedRecord]:
    documents = (*result.documents, *(each.document for each in result.decisions))
    links = (link for each in documents for line in each.lines for link in line.links)
    numbers = sorted({link.record for link in links if link.record is not None})
    for number in numbers:
        content = vault.storage.read_snapshot(lambda t, n=number: vault.log.record(t, n))  # type: ignore[misc]
        record = decode_record(content)
        facts = {name: _plain(each) for name, each in vars(record).items() if each is not None}
        yield CitedRecord(number, record.kind, int(record.time), facts)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
