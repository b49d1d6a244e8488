"""Opening a workspace for strangers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from voile.app.calls import Context
from voile.app.commands.explain import Explain
from voile.app.compliance.delivery import Delivering
from voile.app.explain.service import ReleaseService
from voile.app.explain_rows import ExplanationJob
from voile.app.recommend import open_recommender
from voile.app.serving.delay import delay_of
from voile.app.serving.recommending import ServedRecommender
from voile.app.serving.release import ServedRelease
from voile.app.serving.served import ServedWorkspace
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger
from voile.app.workspace.rules import apply_rules, channels_of
from voile.attribution import CONSTANT_WORK, Speed
from voile.core.guarantee import RowPart
from voile.records.access import PART
from voile.records.audit_log import SigningKey, Witness
from voile.records.audit_log.witness import PART as WITNESS_PART
from voile.records.checkpoints import read_policy
from voile.records.storage import open_storage
from voile.records.vault import SigningSchedule, open_vault_at


@contextmanager
def open_served(path: Path) -> Iterator[ServedWorkspace]:
    """Open a workspace and load all its releases; tables of an older version are brought up to
    date."""
    file = WorkspaceFile.read(path.absolute())
    file.check_files()
    settings = file.tables.serve
    schedule = SigningSchedule(settings.checkpoint_records, settings.checkpoint_seconds)
    with ExitStack() as stack:
        vault = stack.enter_context(open_vault_at(file.place, schedule, extra_parts=(PART,)))
        check_ledger(file, vault)
        apply_rules(file, vault)
        service = ReleaseService(vault)
        releases = {name: _served(file, name, service) for name in file.releases}
        recommenders = {
            name: _recommender(file, name, service) for name in file.tables.recommenders
        }
        workspace = ServedWorkspace(file, service, releases, recommenders, _witness(file, stack))
        workspace.name_accounts(*_accounts(file, releases))
        stack.enter_context(Delivering(vault, channels_of(file)))
        yield workspace


def _recommender(file: WorkspaceFile, name: str, service: ReleaseService) -> ServedRecommender:
    trained = open_recommender(file.folder / file.tables.recommenders[name].source)
    found = ServedRecommender(name, trained, service)
    found.check_paid()
    return found


def _witness(file: WorkspaceFile, stack: ExitStack) -> Witness | None:
    """In a database of its own: it may be that of another machine's witness before."""
    table = file.tables.serve.witness
    if table is None:
        return None
    signer = SigningKey.load(file.folder / table.key)
    rules = [read_policy(file.folder / each) for each in table.policies]
    logs = {each.origin: each.log_keys for each in rules}
    storage = stack.enter_context(open_storage(file.folder / table.database, [WITNESS_PART]))
    return Witness(storage, signer, logs)


def _accounts(file: WorkspaceFile, releases: Mapping[str, ServedRelease]) -> list[str]:
    named = {each.job.spec.account for each in releases.values()} - {None}
    return sorted(set(file.tables.accounts) | {str(each) for each in named})


def _served(file: WorkspaceFile, name: str, service: ReleaseService) -> ServedRelease:
    command = Explain(model=name, workspace=file.path)
    job = ExplanationJob.from_command(command, Context(service=service))
    settings, anonymous = file.tables.serve, file.is_anonymous(name)
    found = ServedRelease(name, job, service, _speed(job), anonymous)
    _ = found.inputs  # read with this speed, before anything else reads them with another
    if anonymous and not found.is_free:
        raise file.toml.wrong(
            "this release costs privacy budget, so somebody has to be charged: remove it",
            *("releases", name, "anonymous"),
        )
    delay = None if found.is_free else delay_of(found.inputs, job, service, settings.delay)
    cost = file.cost_of(name)
    return ServedRelease(name, job, service, found.speed, anonymous, delay, cost)


def _speed(job: ExplanationJob) -> Speed:
    """Where protected rows are computed with, no short cut shows which values they have."""
    free = job.spec.protect is RowPart.TRAINING
    return Speed() if free else Speed(short_cuts=CONSTANT_WORK)
