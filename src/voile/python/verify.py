"""`verify`: is this explanation the one that was paid for and put on record?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

from voile.app.calls import handle
from voile.app.commands.audit import VerifyProof
from voile.core.errors import InvalidInput, VerificationFailed
from voile.core.rendering import render_html
from voile.python.file_names import file_named
from voile.python.view import ExplanationView
from voile.python.words import in_python_words
from voile.records.audit_log import CheckOutcome, Report
from voile.records.vault import POLICY


@dataclass(frozen=True)
class Verification:
    """Every step held that could be checked; true wherever a truth value is asked for.

    Args:
        report: each step, and what came of it.
        what: the explanation, in words.
    """

    view: ClassVar[str] = "verification"

    report: Report
    what: str

    def __bool__(self) -> bool:
        return self.report.verified

    def __str__(self) -> str:
        steps = [
            f"  {_MARKS[each.outcome]} {each.name}: {each.detail}" for each in self.report.steps
        ]
        return "\n".join([f"Verified: {self.what}", *steps])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render_html(self)


_MARKS: Final = {
    CheckOutcome.CHECKED: "✓",
    CheckOutcome.FAILED: "✗",
    CheckOutcome.NOT_CHECKABLE: "-",
}
_ABOUT_THE_ANSWER: Final = ("answer", "row")


def verify(
    explanation: str | PathLike[str] | ExplanationView,
    receipt: str | PathLike[str],
    *,
    policy: str | PathLike[str] = POLICY,
    **more: Any,
) -> Verification:
    """Check offline that an explanation is on record: with its receipt, and nothing else.

    Assumes that the policy came from somebody you trust. Promises that what it returns held in
    every step that could be checked.

    Args:
        explanation: the saved file, or the explanation itself.
        receipt: the file that `why.receipt.save` wrote.
        policy: the log's name, keys and witnesses to trust.
        more: other fields of `voile.app.commands.audit.VerifyProof`, such as `checkpoint`.

    Raises:
        VerificationFailed: a step failed; the message names it.

    >>> from voile import Budget, Explainer, Schema
    >>> budget = Budget.in_memory("clinic 2026", epsilon=3, delta=1e-6)
    >>> explainer = Explainer(lambda rows: rows["age"] / 100, {"age": [20.0, 50.0] * 100},
    ...                       protect="background", schema=Schema({"age": (0, 100)}),
    ...                       budget=budget, model_origin="public", output_range=(0, 1))
    >>> why = explainer({"age": 80}, epsilon=0.5)
    >>> receipt = why.receipt.save("why.tlog-proof")
    >>> bool(verify(why, receipt, policy=budget.policy))
    True
    """
    stated = {"proof": file_named(receipt, "receipt"), "policy": file_named(policy, "policy")}
    with in_python_words(), _saved(explanation) as answer:
        report: Report = handle(VerifyProof.read({**stated, **more, "answer": answer}, "verify"))
    _check(report)
    return Verification(report, answer.name)


def _check(report: Report) -> None:
    """Nothing failed, and it is this explanation that the record is about."""
    if report.failed is not None:
        failed = report.failed
        raise VerificationFailed(f"step {failed.number}, {failed.name}: {failed.detail}")
    compared = [each for each in report.steps if each.name in _ABOUT_THE_ANSWER]
    if not any(each.outcome is CheckOutcome.CHECKED for each in compared):
        raise VerificationFailed(
            "the receipt could not be compared with the explanation; save both again, with "
            "why.save and why.receipt.save"
        )


@contextmanager
def _saved(explanation: Any) -> Iterator[Path]:
    """The file, or one that is made for the moment."""
    if isinstance(explanation, str | PathLike):
        yield file_named(explanation, "explanation")
        return
    if not hasattr(explanation, "save"):
        raise InvalidInput(
            "expected a saved explanation (why.save) or the explanation itself, found a "
            f"{type(explanation).__name__}"
        )
    with TemporaryDirectory(prefix="voile-") as folder:
        path = Path(folder) / "explanation.voile"
        explanation.save(path)
        yield path
