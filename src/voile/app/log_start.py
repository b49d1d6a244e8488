"""Starting an audit log: nothing is made before everything can be, and a start can be finished.

The log comes first, then its key, then its policy. Broken off in between, the same start goes on:
as long as there is no policy, nobody was told whom to trust.
"""

from __future__ import annotations

from voile.app.output_check import check_outputs, files_of_database
from voile.core.atomic_file import create_file
from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log import PART, AuditLog, Policy, SigningKey
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.publishing import latest_checkpoint
from voile.records.storage import Storage, open_storage
from voile.records.vault import Place


def check_start(place: Place) -> None:
    """Refuse places where key or policy could not be written, or would overwrite something."""
    if place.policy.exists():
        raise InvalidInput(f"{place.policy}: exists already; a policy is not overwritten")
    database, key = files_of_database(place.database), place.signing_key
    if key.exists():
        check_outputs([place.policy], [*database, key])
    else:
        check_outputs([key, place.policy], database)


def start_log(place: Place, signer: SigningKey, rules: Policy) -> str:
    """Make the log, its key file and its policy, or what is missing of them; says which it was.

    Raises:
        InvalidInput: the database holds another log, or one that another key signed.
    """
    with open_storage(place.database, [PART]) as storage:
        found = _made_or_found(storage, place, rules)
    if not place.signing_key.exists():
        signer.save(place.signing_key)
    # Another process may have written key or policy since the caller looked.
    if SigningKey.load(place.signing_key).verifier not in rules.log_keys:
        raise InvalidInput(f"{place.signing_key}: holds another key than the policy would name")
    if not create_file(place.policy, str(rules).encode()):
        raise InvalidInput(f"{place.policy}: exists already; a policy is not overwritten")
    return found


def _made_or_found(storage: Storage, place: Place, rules: Policy) -> str:
    try:
        log = storage.submit(AuditLog.open)
    except InvalidInput:  # none yet
        storage.submit(lambda t: AuditLog.create(t, rules.origin))
        return "new"
    if log.origin != rules.origin:
        raise InvalidInput(f"this database holds an audit log already, of {log.origin!r}")
    note = latest_checkpoint(storage)
    try:
        if note is not None:
            signed_checkpoint(note, rules)
    except VerificationFailed:
        raise InvalidInput(
            "this database holds an audit log already, signed with another key than that in "
            f"{place.signing_key}"
        ) from None
    size = storage.submit(log.head).size
    return f"was there already ({size} records); what was missing beside it was written"
