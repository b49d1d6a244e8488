"""Around every use case: what must hold for any call, whichever way it came in.

A door (command line, notebook, server) fills a command and calls `handle`. The handler checks that
its outputs overwrite nothing, opens the records, and charges inside of `charging`: what is on
record is signed, refusals too, and an interrupt says what was paid for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from voile.app.commands import (
    assess,
    audit,
    backup,
    budget,
    compliance,
    dashboard,
    evidence,
    explain,
    federate,
    recommend,
    serve,
    train,
    vault,
    workspace,
)
from voile.app.commands.fields import Command
from voile.core.errors import InvalidInput, VoileError

if TYPE_CHECKING:
    from voile.app.explain import ReleaseService
    from voile.attribution import Speed
    from voile.federation import Progress
    from voile.records.checkpoints import Kept
    from voile.records.vault import Place, Vault

PASSPHRASE: Final = "VOILE_KEYSTORE_PASSPHRASE"
PAID: Final = "paid answers are stored and free to repeat; nothing else was charged or released"
"""What is kept of a call that is interrupted while it charges."""
Files: TypeAlias = Callable[[], Sequence[Path]]
HANDLERS: Final[dict[type[Command], str]] = {
    workspace.Start: "voile.app.init:start",
    workspace.RunDemo: "voile.app.demo:run_demo",
    assess.Assess: "voile.app.assess.handler:assess",
    explain.Explain: "voile.app.explain_rows:explain",
    train.Train: "voile.app.train:train",
    recommend.TrainRecommender: "voile.app.recommend.handler:train_recommender",
    recommend.Recommend: "voile.app.recommend.handler:recommend",
    audit.StartLog: "voile.app.audits:start",
    audit.ShowLog: "voile.app.audits:show",
    audit.ExportLog: "voile.app.audits:export",
    audit.SignCheckpoint: "voile.app.audits:sign",
    audit.AcceptCheckpoint: "voile.app.audits:accept",
    audit.CompleteReceipts: "voile.app.audits:complete",
    audit.IssueReceipt: "voile.app.audits:issue",
    audit.ProveRecord: "voile.app.audits:prove",
    audit.VerifyProof: "voile.app.audits:verify",
    audit.ServeWitness: "voile.app.audits:serve_witness",
    audit.AnchorLog: "voile.app.audits:anchor",
    audit.NewAnchorAccount: "voile.app.audits:new_anchor_account",
    workspace.ShowSchema: "voile.app.schemas:show",
    workspace.CheckSchema: "voile.app.schemas:check",
    workspace.ProposeSchema: "voile.app.schemas:propose_schema",
    budget.OpenBudget: "voile.app.budgets:open_account",
    budget.ShowBudgets: "voile.app.budgets:show_accounts",
    budget.ReportBudget: "voile.app.budgets:report_account",
    budget.BudgetHistory: "voile.app.budgets:show_history",
    budget.ForecastBudget: "voile.app.budgets:forecast_account",
    budget.RenewBudget: "voile.app.budgets:renew_account",
    budget.VerifyBudgets: "voile.app.budgets:verify_accounts",
    compliance.CheckRules: "voile.app.rules:check",
    compliance.ShowRules: "voile.app.rules:show",
    compliance.PutRules: "voile.app.rules:put",
    compliance.LiftMeasure: "voile.app.rules:lift_measure",
    compliance.SendAlerts: "voile.app.rules:send",
    budget.SetBudgetPolicy: "voile.app.budget_rules:set_policy",
    budget.RequestCharge: "voile.app.budget_rules:request_charge",
    budget.ApproveCharge: "voile.app.budget_rules:approve_charge",
    budget.ListApprovals: "voile.app.budget_rules:list_approvals",
    budget.PlanBudget: "voile.app.budget_rules:plan_budget",
    recommend.ExplainRecommendation: "voile.app.recommend.handler:explain_recommendation",
    federate.Federate: "voile.app.federations:run_federation",
    federate.ShowFederationStatus: "voile.app.federations:show_status",
    federate.StopFederation: "voile.app.federations:stop",
    federate.MakeServerKey: "voile.app.federations:make_server_key",
    federate.JoinFederation: "voile.app.federate.join:join",
    federate.ShowNodeStatus: "voile.app.federate.join:show_status",
    federate.MakeNodeKeys: "voile.app.federate.join:make_keys",
    federate.WriteReport: "voile.app.report.handler:write",
    backup.Backup: "voile.app.backups:back_up",
    backup.Restore: "voile.app.backups:restore",
    evidence.CollectEvidence: "voile.app.evidence.handler:collect",
    vault.EraseAnswers: "voile.app.erasure:erase",
    serve.Serve: "voile.app.serving.handler:serve",
    dashboard.ExportDashboard: "voile.app.dashboard.export:export",
    serve.AddKey: "voile.app.keys:add",
    serve.ListKeys: "voile.app.keys:list_all",
    serve.RevokeKey: "voile.app.keys:revoke",
    federate.StartTestbed: "voile.app.testbed:start",
    federate.StopTestbed: "voile.app.testbed:stop",
}
"""By command, where its handler is. Handlers load what they need, commands nothing."""


def handle(command: Command, context: Context | None = None) -> Any:
    """Do what a command says; the result is plain data.

    Args:
        context: what the door brings along; nothing is asked or said without one.
    """
    module, _, name = HANDLERS[type(command)].partition(":")
    return getattr(import_module(module), name)(command, context or Context())


def refuse_to_overwrite(existing: Sequence[Path]) -> None:
    """Where nobody can be asked."""
    names = ", ".join(map(str, existing))
    raise InvalidInput(f"{names}: exists already. Existing files are kept unless you pass --yes")


def refuse_without_yes(question: str) -> None:
    """Where nobody can be asked."""
    raise InvalidInput(f"{question} Pass --yes to confirm")


def passphrase_from_environment(_new: bool) -> str:
    """Where nobody can be asked."""
    found = os.environ.get(PASSPHRASE)
    if found is None:
        raise InvalidInput(f"no passphrase for the keystore: set {PASSPHRASE}")
    return found


def default_answer(_question: str, default: str) -> str:
    """Where nobody can be asked."""
    return default


def _uninterrupted(*_: Any, **__: Any) -> AbstractContextManager[None]:
    return nullcontext()


def _unheard(_what: Any) -> None:
    """Nobody listens."""


def _unwatched(_delta: float) -> Progress | None:
    return None


def _plain_speed() -> Speed | None:
    return None


@dataclass(frozen=True, eq=False)
class Context:
    """What a door brings along.

    Args:
        say: is told what is being done, and what could not be.
        confirm: is asked about files that are there already; raises to refuse.
        ask: is asked any other question; raises unless the answer is yes.
        prompt: is asked for a text, and told what it is by default.
        passphrase: of a keystore; told whether it is a new one.
        interruptible: wraps what charges, and is told what is kept of it, in words, and which
            files the call writes.
        watch: is told how far a long job is, in terms of that job.
        steps: is told how many steps of a long computation are done, and of how many.
        rounds: what is told how far the rounds of a federation are; made for its delta.
        stop: is set to end what runs until it is told to.
        speed: how to explain, with a line of progress where somebody watches.
        service: answers from records that stay open between calls, and are signed by a schedule;
            None to open them for each call.
        known: what was loaded for earlier calls, by the name of a release or the model itself;
            None to load anew.
    """

    say: Callable[[str], None] = _unheard
    confirm: Callable[[Sequence[Path]], None] = refuse_to_overwrite
    ask: Callable[[str], None] = refuse_without_yes
    prompt: Callable[[str, str], str] = default_answer
    passphrase: Callable[[bool], str] = passphrase_from_environment
    interruptible: Callable[..., AbstractContextManager[None]] = _uninterrupted
    watch: Callable[[Any], Any] = _unheard
    steps: Callable[[int, int], None] | None = None
    rounds: Callable[[float], Progress | None] = _unwatched
    stop: threading.Event = field(default_factory=threading.Event)
    speed: Callable[[], Speed | None] = _plain_speed
    service: ReleaseService | None = None
    known: dict[Any, Any] | None = field(default=None, repr=False)

    def check_overwriting(self, outputs: Sequence[Path], *, allowed: bool) -> None:
        """Before anything is computed or charged."""
        existing = [path for path in outputs if os.path.lexists(path)]
        if existing and not allowed:
            self.confirm(existing)

    @contextmanager
    def records(self, place: Place) -> Iterator[ReleaseService]:
        """Ledger, log and keys: those that are open, or opened for this call.

        The log is compared with the pinned checkpoint when they are opened.
        """
        from voile.app.explain import ReleaseService
        from voile.records.vault import open_vault_at

        if self.service is not None:
            yield self.service
            return
        with open_vault_at(place, signing=None) as vault:
            if vault.keeper is None:
                self.say(
                    f"No signing policy found ({place.policy}): nothing is signed, and you get no "
                    "receipt. Create one with `voile audit init`"
                )
            yield ReleaseService(vault)

    @contextmanager
    def charging(self, vault: Vault, outputs: Files) -> Iterator[None]:
        """Around the charge: a refusal is on record as well, so it is signed before it leaves."""
        with self.interruptible(PAID, outputs):
            try:
                yield
            except BaseException:
                with suppress(VoileError):  # of a database that is gone; told already
                    self._sign_refusal(vault)
                raise

    def sign(self, vault: Vault) -> Kept | None:
        """Sign what is on record; None where a schedule does it."""
        return vault.keep() if self.service is None else None

    def _sign_refusal(self, vault: Vault) -> None:
        if not vault.unsigned:
            return
        kept = vault.keep()
        if kept.published is None or kept.missing:
            self.say(f"checkpoint: {kept}")
