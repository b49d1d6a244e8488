"""`voile assess`: voile attacks itself."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from voile.app.commands.assess import Assess
from voile.cli.commands import command_line
from voile.cli.output import VISIBLE, ExitCode, console, print_json
from voile.cli.progress import say

if TYPE_CHECKING:
    from voile.app.assess.handler import AssessResult
    from voile.assess.assessment import AssessedClaim, AssessmentProgress, TrialOutcome

_log = logging.getLogger(__name__)
_OFTEN: Final = 0.2
"""Seconds between two looks at a terminal; a log is told a hundred times less often."""

EPILOG = """\
Examples:

  voile assess output/artefact

  voile assess voile.toml --minutes 10

  voile assess federation.toml   (before anything is charged)

  voile assess output/artefact --count-members nodes/north --others held-out.csv   (charged)

Verdicts: "refuted" proves that more is released than charged for (exit code 6). "not refuted" means
that an attack which detects half of the noise found nothing. "inconclusive" means that the time was
too short to tell (exit code 7). None of them means "safe".
"""


def progress_line() -> AssessmentProgress:
    """Who is tried and how long it takes: a line that is rewritten on a terminal, on stderr."""
    shown = {"terminal": 0.0, "log": 0.0}

    def is_due(where: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - shown[where] < seconds:
            return False
        shown[where] = now
        return True

    def show(tried: TrialOutcome) -> None:
        minutes, seconds = divmod(round(tried.seconds_left), 60)
        text = (
            f"{tried.name}: {tried.runs:,} runs; half of the noise was detected for "
            f"{tried.found_out} of {tried.claims} claims; {minutes}:{seconds:02} left"
        )
        if is_due("log", 100 * _OFTEN):
            _log.info(text)
        if sys.stderr.isatty() and is_due("terminal", _OFTEN):
            sys.stderr.write(f"\r\x1b[K{text.translate(VISIBLE)}")
            sys.stderr.flush()

    return show


def end_line() -> None:
    """Wipe out the line, if there is one."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _show_assessed(result: AssessResult, *, as_json: bool) -> None:
    end_line()
    if as_json:
        counted = result.counted
        print_json(
            result.findings | ({} if counted is None else {"members_count": counted.to_dict()})
        )
    else:
        _print_assessed(result)
    if result.members is not None:
        say(f"findings on members, not for release: {result.members}")
    codes = {"refuted": ExitCode.CLAIM_REFUTED, "blind": ExitCode.ATTACK_BLIND}
    raise typer.Exit(codes.get(result.assessment.verdict.value, ExitCode.DONE))


def _print_assessed(result: AssessResult) -> None:
    done, counted = result.assessment, result.counted
    lines = [_line(each) for each in done.events]
    lines += [f"not audited  {reason}" for reason in done.subject.left_out]
    lines += [] if counted is None else ["", str(counted), f"guarantee: {counted.guarantees[0]}"]
    logged = "not recorded: no log found here" if done.record is None else f"record {done.record}"
    lines += ["", f"verdict   {done.verdict.word}", f"findings  {done.path}"]
    text = "\n".join([*lines, f"log       {logged}"])
    console().print(text, soft_wrap=True, highlight=False)


def _line(each: AssessedClaim) -> str:
    from voile.assess.assessment import Verdict
    from voile.views.text import rounded_up

    inconclusive = each.verdict is Verdict.BLIND
    claim = f"claim ε = {rounded_up(each.epsilon)}, δ = {rounded_up(each.delta)}"
    said = f"{each.verdict.word:<12} {each.name}: {claim}; {each.runs:,} runs"
    said += f", e-value {each.e_value:.3g} of {each.threshold:g}"
    if each.verdict is Verdict.NOT_REFUTED:
        said += (
            f"; half of the noise was detected after {each.control_runs:,} runs; a claim of "
            f"ε = {each.epsilon_found:.3g} with more noise would have been refuted (95 %)"
        )
    return said + ("; nothing follows: allow more --minutes" if inconclusive else "")


assess = command_line(
    Assess, _show_assessed, bring=lambda context: replace(context, watch=progress_line())
)
