"""What one party keeps: its ledger and its audit log in one database, its keys beside it.

Four files, named as the commands of `voile` expect them: `log.db`, `audit.key` and `replay.key`
(mode 0600), `audit-policy.toml`. The last is public: whoever has it can check receipts and exports.
A copy of the last checkpoint lies beside the signing key, `audit.checkpoint`: a log that does not
extend it is not opened, and nothing is added to it. Nor is a signed log without its copy, until
somebody says that it is the current one (`Keeper.accept`). While it is open it is signed by a
schedule (`SigningSchedule`), and what is left is signed when it is closed.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final, Self

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.input_file import read_file
from voile.records.audit_log import PART as LOG_PART
from voile.records.audit_log import AuditLog, PinnedCheckpoint, Policy, SigningKey
from voile.records.audit_log.notes import LARGEST_NOTE
from voile.records.audit_log.publishing import PublishedCheckpoints
from voile.records.checkpoints import Keeper, Kept, kept_checkpoint, relative_path
from voile.records.ledger import PART as LEDGER_PART
from voile.records.ledger import Account, Ledger, ReplayKey
from voile.records.rule_book import PART as RULES_PART
from voile.records.storage import Part, Storage, Transaction, open_storage
from voile.records.storage.opening import file_of, open_existing
from voile.records.stored_answers import KeySample

# --- Checkpoints by a schedule, while a process holds its log open -------------------------------
# What is newer than the last checkpoint is the unsigned tail: who sets the database back to a state
# without it is not noticed. A process that answers for months keeps it short: a thread of its own
# signs after so many records or so many seconds, and what is left is signed when the log is closed.
#
# - Nobody waits for it: an append notes the new size, and no signature is made in a transaction.
# - It stops nothing: what went wrong is written to Python's log, and tried again.
# - Several processes may sign one log: who finds everything signed signs nothing.

CLOSING: Final = 30.0
"""Seconds to wait for a signature that is under way: longer than witnesses are waited for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SigningSchedule:
    """When a checkpoint is due: whatever comes first.

    Args:
        records: that are newer than the last one.
        seconds: since the first of them.
    """

    records: int = 100
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.records < 1 or not 0 < self.seconds < math.inf:
            raise InvalidInput(
                "expected a checkpoint after at least one record and a finite, positive number of "
                f"seconds, found {self.records} and {self.seconds}"
            )


class ScheduledSigning:
    """Signs a log whenever a checkpoint is due, until it is closed.

    The thread is started when something is unsigned for the first time: who only reads has none. A
    forked child has none either, and its log is closed.

    Args:
        sign: makes a checkpoint of all that is committed; says what went wrong.
        size: how many records the last checkpoint covers.
        clock: never goes back.
    """

    def __init__(
        self,
        schedule: SigningSchedule,
        sign: Callable[[], Kept],
        *,
        size: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedule, self._sign, self._clock = schedule, sign, clock
        self._size = self._tried = size
        self._since: float | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()

    def grew(self, size: int) -> None:
        """The log is to have so many records, once the transaction is committed."""
        with self._changed:
            if size <= self._size or self._closed:
                return
            self._size = size
            if self._since is None:
                self._since = self._clock()
                self._start()
            if self._due_in() <= 0:
                self._changed.notify()

    def due_in(self) -> float:
        """Seconds until a checkpoint is due; infinite while nothing is unsigned."""
        with self._changed:
            return self._due_in()

    def close(self) -> None:
        """Stop, and sign what is left."""
        if self._closed or os.getpid() != self._process:
            return
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSING)
        if self._since is not None:
            self._try()

    def _due_in(self) -> float:
        if self._since is None:
            return math.inf
        if self._size - self._tried >= self._schedule.records:
            return 0.0
        return self._since + self._schedule.seconds - self._clock()

    def _start(self) -> None:
        """Or wake the thread: it waits without end while nothing is unsigned."""
        if self._thread is not None:
            self._changed.notify()
            return
        thread = threading.Thread(target=self._run, name="voile signing", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: what is appended must not fail for that
            _log.warning("no checkpoint is signed before the log is closed: %s", error)
        else:
            self._thread = thread

    def _run(self) -> None:
        while self._wait():
            self._try()

    def _wait(self) -> bool:
        """Until a checkpoint is due; false when this is closed."""
        with self._changed:
            while not self._closed:
                left = self._due_in()
                if left <= 0:
                    return True
                self._changed.wait(None if left == math.inf else left)
        return False

    def _try(self) -> None:
        # Signing begins with a turn of the writer's. So a record that was told of before is in the
        # database by then, or was given up; one that is told of meanwhile may be in neither.
        with self._changed:
            told = self._size
        done = self._signed()
        with self._changed:
            self._tried = told
            again = not done or self._size > told
            self._since = self._clock() if again else None

    def _signed(self) -> bool:
        try:
            kept = self._sign()
        except VoileError as error:
            _log.warning("the log was not signed: %s", error)
            return False
        except Exception:
            _log.exception("the log was not signed; it is tried again")
            return False
        _log.log(logging.WARNING if kept.error or kept.missing else logging.DEBUG, "%s", kept)
        return kept.error is None


# --------------------------------------------------------------------------------------------------


PARTS: Final[tuple[Part, ...]] = (LEDGER_PART, LOG_PART, RULES_PART)
"""Open the storage with these: ledger, log and rules in one database commit together."""
DATABASE: Final = "log.db"
PYTHON_DATABASE: Final = "voile.db"
"""What `voile.Budget` makes; the commands find it where there is no other."""
LOG_KEY: Final = "audit.key"
REPLAY_KEY: Final = "replay.key"
POLICY: Final = "audit-policy.toml"
WORKSPACE: Final = "voile.toml"
"""Names all of them, and what is explained with them (`voile.app.workspace`)."""
BY_SCHEDULE: Final = SigningSchedule()


@dataclass(frozen=True)
class Place:
    """Where all of it lies; the database is a file or the URL of a server."""

    database: str
    signing_key: Path
    policy: Path
    replay_key: Path

    @classmethod
    def within(cls, folder: Path) -> Self:
        """All in one folder, under the usual names."""
        usual, other = folder / DATABASE, folder / PYTHON_DATABASE
        database = other if other.exists() and not usual.exists() else usual
        return cls(str(database), folder / LOG_KEY, folder / POLICY, folder / REPLAY_KEY)

    def absolute(self) -> Self:
        """The same, wherever the process goes while it is open: keys and copies are read and
        written later. A database that was opened knows where it is."""
        return replace(
            self,
            signing_key=self.signing_key.absolute(),
            policy=self.policy.absolute(),
            replay_key=self.replay_key.absolute(),
        )


def usual_place(
    artefact: Path | None = None,
    *,
    database: str | None = None,
    signing_key: Path | None = None,
    policy: Path | None = None,
    replay_key: Path | None = None,
) -> Place:
    """The usual names beside the database, but for those that are stated.

    Of a server's database, and where none is named, in this folder; for an artefact, in the folder
    of its run, if that has a database.
    """
    for path in (signing_key, policy, replay_key):
        if path is not None and not path.name:
            raise InvalidInput(f"{str(path)!r}: expected the name of a file for a key or a policy")
    usual = Place.within(_folder_of(database))
    if artefact is not None and database is None:
        plain = artefact.name not in ("", "..")
        beside = Place.within((artefact if plain else artefact.resolve()).parent)
        usual = beside if Path(beside.database).exists() else usual
    return Place(
        database or usual.database,
        signing_key or usual.signing_key,
        policy or usual.policy,
        replay_key or usual.replay_key,
    )


def check_named(*files: Path | None) -> None:
    """Refuse what somebody named and is not there: a mistyped key must not read as "no key here",
    by which the copy beside it would not be asked either."""
    for path in files:
        if path is not None and not path.exists():
            raise InvalidInput(f"{path}: there is no such file; leave it out if it is not here")


def _folder_of(database: str | None) -> Path:
    path = None if database is None else file_of(database)
    return Path() if path is None else path.parent


@dataclass(frozen=True)
class Vault:
    """A party's database and keys, opened.

    Args:
        log: best one that knows its kept checkpoint (`AuditLog.known_by`, `open_vault`); without
            it a database that was set back is not noticed.
        keeper: None where nothing is known of who signs the log.
        key_sample: one of the answers under the key of questions: it is never made anew, and
            another one is noticed. None while there are no answers.
    """

    place: Place
    storage: Storage
    ledger: Ledger
    log: AuditLog
    keeper: Keeper | None = None
    key_sample: KeySample | None = None

    @cached_property
    def key(self) -> ReplayKey:
        """The key of questions; `Refused` if it is not that of the stored answers."""
        key = self.key_as_found
        if self.key_sample is not None and not self.key_sample.fits(key):
            raise Refused(
                f"{relative_path(self.place.replay_key)}: does not open the stored answers of "
                "this ledger. With another key, earlier questions would be charged again. Name "
                "the right key with --replay-key; if this is it, run `voile budget verify`"
            )
        return key

    @property
    def key_as_found(self) -> ReplayKey:
        """The key that lies here, whosever it is; made if there is none and none was used."""
        path = self.place.replay_key
        if self.key_sample is not None and not path.exists():
            raise InvalidInput(
                f"{relative_path(path)}: the replay key of this ledger is missing. With a new "
                "key, earlier questions would be charged again. Put the key there, or name it "
                "with --replay-key"
            )
        return _replay_key(path)

    def account(self, name: str) -> Account:
        """What an account promises."""
        return self.storage.read_snapshot(lambda t: self.ledger.account(t, name))

    def find_account(self, name: str) -> Account | None:
        """The same; None if there is no such account."""
        found = self.storage.read_snapshot(lambda t: self.ledger.is_open(t, name))
        return self.account(name) if found else None

    @property
    def policy(self) -> Policy:
        """Whom to trust when checking this log."""
        return self._keeper.policy

    @property
    def kept_copies(self) -> tuple[tuple[str, bytes], ...]:
        """The checkpoint that is kept beside the signing key, if there is one: name and bytes."""
        copy = kept_checkpoint(self.place.signing_key)
        return ((copy.name, read_file(copy, LARGEST_NOTE)),) if copy.exists() else ()

    @property
    def unsigned(self) -> int:
        """How many records are newer than the last checkpoint: if the database is set back to a
        state without them, nobody notices."""
        return self.storage.read_snapshot(lambda t: self.log.head(t).size - self.log.signed_size(t))

    def covers(self, record: int) -> bool:
        """Whether a checkpoint was published over this record."""
        return record < self.storage.read_snapshot(self.log.signed_size)

    @property
    def can_sign(self) -> bool:
        """Whether the signing key is here."""
        return self.keeper is not None and self.keeper.signer is not None

    def publish(self) -> PublishedCheckpoints:
        """Sign what the log holds, and keep a copy of the checkpoint beside the key."""
        return self._keeper.publish(self.storage, self.log)

    def keep(self) -> Kept:
        """The same after something was paid for: says what went wrong instead of raising it."""
        if self.keeper is None:
            return Kept(
                f"not signed: no signing policy found ({relative_path(self.place.policy)}). "
                "Create one with `voile audit init`"
            )
        return self.keeper.keep(self.storage, self.log)

    @property
    def _keeper(self) -> Keeper:
        if self.keeper is None:
            raise InvalidInput(
                f"{relative_path(self.place.policy)}: no signing policy found. Create one with "
                "`voile audit init`"
            )
        return self.keeper


@contextmanager
def open_vault(
    folder: Path,
    origin: str,
    signing: SigningSchedule | None = BY_SCHEDULE,
    *,
    extra_parts: tuple[Part, ...] = (),
) -> Iterator[Vault]:
    """Open what a party keeps in this folder; new, if there is nothing.

    Args:
        folder: one for one party.
        origin: name of the log, best a URL without its scheme.
        signing: None for whoever signs at the end of a short job.
        extra_parts: what else is kept in the same database.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = Place.within(folder.absolute())
    with _made_or_opened(place, origin, signing, (*PARTS, *extra_parts)) as vault:
        yield vault


@contextmanager
def open_passing_vault(
    origin: str, signing: SigningSchedule | None = BY_SCHEDULE
) -> Iterator[Vault]:
    """For a trial: a database in memory, and keys that are removed when it is closed."""
    # Not a `TemporaryDirectory`: at the end of a process that would be gone before the last use.
    folder = Path(mkdtemp(prefix="voile-"))
    try:
        place = replace(Place.within(folder), database="memory:")
        with _made_or_opened(place, origin, signing, PARTS) as vault:
            yield vault
    finally:
        rmtree(folder, ignore_errors=True)


@contextmanager
def _made_or_opened(
    place: Place, origin: str, signing: SigningSchedule | None, parts: tuple[Part, ...]
) -> Iterator[Vault]:
    signer = _signing_key(place.signing_key, origin)
    if signer.verifier.name != origin:
        raise InvalidInput(
            f"{place.policy.parent}: this folder belongs to {signer.verifier.name!r}, not "
            f"{origin!r}"
        )
    if not place.policy.exists():
        replace_file(place.policy, str(Policy(origin, (signer.verifier,))).encode())
    with open_storage(place.database, parts) as storage:
        _make_log(storage, origin)
        with signed_by(_opened(storage, place), signing) as vault:
            _ = vault.key  # made with the rest
            yield vault


@contextmanager
def open_vault_at(
    place: Place,
    signing: SigningSchedule | None = BY_SCHEDULE,
    *,
    extra_parts: tuple[Part, ...] = (),
) -> Iterator[Vault]:
    """Open what is there; see `open_vault`."""
    with (
        open_existing(place.database, (*PARTS, *extra_parts)) as storage,
        signed_by(_opened(storage, place.absolute()), signing) as vault,
    ):
        yield vault


@contextmanager
def signed_by(vault: Vault, schedule: SigningSchedule | None) -> Iterator[Vault]:
    """The same, signed by a schedule while it is open, and once more when it is closed.

    What a process that was killed left unsigned, or signed and not kept, counts from now on.
    """
    keeper, storage, log = vault.keeper, vault.storage, vault.log
    known = None if log.kept is None else log.kept.read()
    if keeper is None or schedule is None:
        yield vault
        return
    size = 0 if known is None else known.size
    signing = ScheduledSigning(schedule, lambda: keeper.keep_up(storage, log), size=size)
    signing.grew(storage.read_snapshot(log.head).size)
    try:
        yield replace(vault, log=replace(log, grew=signing.grew))
    finally:
        signing.close()


def _opened(storage: Storage, place: Place) -> Vault:
    """Keys and policy are read, and the log is compared with the copy, before anything is done."""
    keeper, ledger = find_keeper(place), Ledger()

    def known(t: Transaction) -> tuple[AuditLog, KeySample | None]:
        log = open_known_log(t, place, keeper)
        return log, KeySample.from_records(t, ledger, log)

    log, key_sample = storage.submit(known)
    return Vault(place, storage, ledger, log, keeper, key_sample)


def find_keeper(place: Place) -> Keeper | None:
    """Who signs this log; the copy is the one beside the key, or else another that is here."""
    keeper = Keeper.from_files(place.signing_key, place.policy)
    if keeper is None or keeper.copy.exists():
        return keeper
    others = [copy.path for copy in _other_copies(place, keeper)]
    return replace(keeper, copy=others[0]) if others else keeper


def open_known_log(t: Transaction, place: Place, keeper: Keeper | None) -> AuditLog:
    """The log in this database, compared with every copy that is here."""
    log = AuditLog.open(t)
    if keeper is not None:
        log = keeper.knows(log)
        for each in (log, *(log.known_by(copy) for copy in _other_copies(place, keeper))):
            each.check(t)
    elif log.is_signed(t):
        raise InvalidInput(
            f"{relative_path(place.policy)}: the log has signed checkpoints, but its signing "
            "policy is missing. Name it with --policy: without it, a database restored from an "
            "old backup would go unnoticed"
        )
    return log


def _other_copies(place: Place, keeper: Keeper) -> Iterator[PinnedCheckpoint]:
    """Copies under the usual name beside database and policy, where the key is from elsewhere.

    Beside the files themselves, too, where their names are links: it is the file that was set back.
    """
    files = [place.policy, *filter(None, [file_of(place.database)])]
    for folder in dict.fromkeys(each.parent for path in files for each in (path, path.resolve())):
        copy = PinnedCheckpoint(kept_checkpoint(folder / LOG_KEY), keeper.policy)
        if copy.path != keeper.copy and copy.path.exists() and not copy.is_of_another_log():
            yield copy


def _make_log(storage: Storage, origin: str) -> None:
    try:
        storage.submit(AuditLog.open)
    except InvalidInput:  # none yet
        storage.submit(lambda t: AuditLog.create(t, origin))


def _signing_key(path: Path, origin: str) -> SigningKey:
    if not path.exists():
        SigningKey.generate(origin).save(path)
    return SigningKey.load(path)


def _replay_key(path: Path) -> ReplayKey:
    if not path.exists():
        ReplayKey.generate().save(path)
    return ReplayKey.load(path)
