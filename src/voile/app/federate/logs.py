"""The logs of a federation: asked for at the end, checked against the agreement, and shown.

The server opens nobody's database. Each node hands over its own signed log, and what it says there
is compared with what the server saw: every answer that counted has a charge on record.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from voile.app.artefact_manifest import FILES_OF_A_LOG, log_place
from voile.app.federate.agreement import FederationAgreement
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.federation import Closed, Closing, HistoryRow, Transport
from voile.privacy.events import from_dict
from voile.records.audit_log import (
    CheckOutcome,
    ParticipationRecord,
    Policy,
    decode_record,
    record_lines,
    verify_export,
)
from voile.records.audit_log.canonical import Malformed, decode_flat
from voile.records.audit_log.publishing import CHECKPOINT_FILE, RECORDS_FILE
from voile.records.ledger.event_text import event_for_log, event_text
from voile.records.vault import POLICY

Files = Mapping[str, bytes]


def collected_logs(
    transport: Transport, agreement: FederationAgreement, rows: Iterable[HistoryRow]
) -> dict[str, Files]:
    """The signed log of every party, each of which says what the history says.

    Args:
        rows: what the server saw of all stages.
    """
    rows = list(rows)
    found: dict[str, Files] = {}
    for reply in transport.exchange(dict.fromkeys(agreement.sizes, Closing(agreement.digest))):
        if reply.outcome is not None:
            why = f" ({reply.error})" if isinstance(reply.error, VoileError) else ""
            raise Refused(
                f"{reply.node!r} has not sent its log: {reply.outcome!s}{why}. Nothing is lost: "
                "run the same command again"
            )
        counted = [row for row in rows if row.client == reply.node and row.outcome.counts]
        found[reply.node] = checked_log(reply.node, reply.content, agreement, counted)
    return found


def checked_log(
    party: str, closed: object, agreement: FederationAgreement, counted: Iterable[HistoryRow]
) -> Files:
    """The files of a log that a node handed over, if it is what was agreed on and says the same."""
    if type(closed) is not Closed or (closed.client, closed.agreement) != (party, agreement.digest):
        raise Refused(f"{party!r} did not answer with its log")
    files = closed.files if isinstance(closed.files, Mapping) else {}
    if set(files) != set(FILES_OF_A_LOG) or not all(isinstance(f, bytes) for f in files.values()):
        raise Refused(f"the log of {party!r} consists of other files than {list(FILES_OF_A_LOG)}")
    try:
        policy = Policy.parse(files[POLICY].decode())
    except (Malformed, UnicodeDecodeError) as error:
        raise Refused(f"the policy of {party!r} cannot be read: {error}") from error
    if policy.log_keys != (agreement.keys[party],):
        raise Refused(f"the log of {party!r} is not signed with the agreed key")
    records = list(record_lines(io.BytesIO(files[RECORDS_FILE])))
    for step in verify_export(records, files[CHECKPOINT_FILE], policy).steps:
        if step.outcome is CheckOutcome.FAILED and step.number != _COSIGNATURES:
            raise Refused(f"the log of {party!r} does not verify: {step.name}: {step.detail}")
    try:
        participations = list(_participations(records))
    except InvalidInput as error:
        raise Refused(f"the log of {party!r} cannot be read: {error}") from error
    _check_charges(party, agreement, participations, counted)
    return files


_COSIGNATURES = 6
"""Of the steps of `verify_export`: witnesses may still be missing, which the report says."""


def _participations(records: Iterable[bytes]) -> Iterator[ParticipationRecord]:
    """What a log that verifies says about rounds. Its other records are for auditors, and may be of
    kinds that only another version of voile knows: they are shown as they are."""
    for content in records:
        flat = decode_flat(content)
        if (flat["kind"], flat["version"]) == (
            ParticipationRecord.kind,
            ParticipationRecord.version,
        ):
            record = decode_record(content)
            assert isinstance(record, ParticipationRecord)
            yield record


def _check_charges(
    party: str,
    agreement: FederationAgreement,
    participations: Iterable[ParticipationRecord],
    counted: Iterable[HistoryRow],
) -> None:
    charged = {
        (record.stage, record.round, record.event)
        for record in participations
        if (record.federation, record.agreement) == (agreement.name, agreement.digest)
    }
    for row in counted:
        event = event_for_log(event_text(from_dict(json.loads(row.event))))
        if (row.stage, row.round, event) not in charged:
            raise Refused(
                f"{party!r} took part in round {row.round} of {row.stage!r}, and its log holds no "
                "charge for it"
            )


def write_logs(logs: Mapping[str, Files], folder: Path) -> dict[str, str]:
    """Write logs into an artefact; where each lies, relative to it."""
    for party, files in logs.items():
        target = folder / log_place(party)
        if target.exists():  # of a run that is continued: its log has grown
            shutil.rmtree(target)
        target.mkdir(parents=True)
        for name in FILES_OF_A_LOG:
            replace_file(target / name, files[name])
    return {party: log_place(party) for party in logs}
