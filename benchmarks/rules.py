"""What rules add to a charge, in processor time.

Step 3 of an answer (check, charge three accounts, keep the answer, append the record) on SQLite,
with a set of rules that covers every metric, beside the same without rules. In turn, so that a slow
moment of the machine hits both. No threshold is reached: that is what nearly every charge meets.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Figure, write
from benchmarks.ledger import ANSWER, PATH, _ready, create
from voile.app.compliance.enforcement import put_in_force
from voile.app.explain.charging import AccountQuestions, settle
from voile.compliance import Rule, RuleSet
from voile.records.storage import Transaction
from voile.records.storage.session import grouped_writes
from voile.records.vault import Vault

STEPS, ROUNDS = 200, 30
TARGET = 50.0
RULES = RuleSet(
    tuple(
        Rule.model_validate(each)
        for each in (
            *({"metric": "budget.used", "account": name, "rate": "10/minute"} for name in PATH),
            {"metric": "budget.used", "account": "clinic", "per": "caller", "action": "stop"},
            {"metric": "privacy.loss", "account": "clinic", "allowance": 1.0},
            {"metric": "privacy.loss", "account": "clinic", "allowance": 1e6, "window": "day"},
            {"metric": "explanation.quality", "alert": 0.5, "act": 0.9},
            {"metric": "service.load", "alert": 50, "act": 100},
            {"metric": "caller.requests", "alert": 1e9, "window": "hour"},
            {"metric": "caller.refusals", "alert": 5},
            {"metric": "caller.overlap", "account": "clinic"},
        )
    )
)
BUDGETS_ONLY = RuleSet(RULES.rules[:3])


def _charging(folder: Path, rules: RuleSet) -> Callable[[], float]:
    """Charges one after the other; gives microseconds of processor time for each."""
    place = str(folder / "charges.db")
    create(place)
    vault, prepared = _ready(place)
    if rules.rules:
        put_in_force(vault, rules)

    def run() -> float:
        asked: list[AccountQuestions] = [prepared() for _ in range(STEPS)]
        started = time.thread_time()
        for each in asked:
            vault.storage.submit(lambda t, one=each: _settled(vault, t, one))  # type: ignore[misc]
        return (time.thread_time() - started) / STEPS * 1e6

    return run


def _settled(vault: Vault, t: Transaction, asked: AccountQuestions) -> object:
    """As the walk does it."""
    with grouped_writes(t) as grouped:
        return settle(vault, grouped, asked, {0: ANSWER})


def _added(rules: RuleSet) -> tuple[float, float]:
    """With rules and without, the fastest of rounds in turn: other programs slow the rest."""
    with tempfile.TemporaryDirectory() as with_rules, tempfile.TemporaryDirectory() as without:
        ours = _charging(Path(with_rules), rules)
        bare = _charging(Path(without), RuleSet())
        pairs = [(ours(), bare()) for _ in range(ROUNDS + 1)][1:]
    first, second = zip(*pairs, strict=True)
    return min(first), min(second)


def run() -> None:
    """Measure, and write `results/rules.json`."""
    figures = []
    for what, rules in (
        ("every metric, eleven rules", RULES),
        ("budgets of three accounts", BUDGETS_ONLY),
    ):
        ours, bare = _added(rules)
        added = ours - bare
        print(f"{what}: {ours:.1f} and {bare:.1f} us of processor time, {added:+.1f} us")
        figures.append(Figure(f"charge under rules: {what}", "us", ours, bare, ours / bare))
        figures.append(
            Figure(
                f"added by rules: {what}", "us", added, None, None, "at most 50", added <= TARGET
            )
        )
    write("rules", "without rules", figures)
