"""`voile assess`: voile attacks itself."""

from __future__ import annotations

import logging
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from voile.cli.interrupts import PAID, interruptible
from voile.cli.options import CallerOption
from voile.cli.output import VISIBLE, ExitCode, JsonOption, console, print_json
from voile.cli.rounds import say

if TYPE_CHECKING:
    from voile.app.assess import Assessment, MembersCounting
    from voile.attacks.assessment import Seen, Tried
    from voile.attacks.members_count import MembersCount

_log = logging.getLogger(__name__)
_OFTEN: Final = 0.2
"""Seconds between two looks at a terminal; a log is told a hundred times less often."""

EPILOG = """\
Examples:

  voile assess output/artefact

  voile assess voile.toml --minutes 10

  voile assess federation.toml   (before anything is charged)

  voile assess output/artefact --count-members nodes/north --others held-out.csv   (charged)

Verdicts: "refuted" is a proof that more is released than charged for (exit code 6); "not refuted"
says that an attack which finds out half of the noise found nothing; "blind" that the time was too
short to say even that (exit code 7). None of them says "safe".
"""

_KEPT: Final = (
    "findings are kept once they are on record, and nothing of an unfinished assessment is"
)


def assess(
    subject: Annotated[
        Path,
        typer.Argument(
            metavar="ARTEFACT|WORKSPACE|CONFIG",
            help="Folder of an artefact or a recommender, voile.toml, or federation.toml.",
        ),
    ],
    minutes: Annotated[
        float, typer.Option(min=0.01, help="How long to try, over all that is charged.")
    ] = 2.0,
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also attack these rows, which the model of ARTEFACT was trained on. What is "
            "found is written to evaluation-not-for-release/ and shown nowhere.",
        ),
    ] = None,
    others: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rows to compare members with: not trained on, and for --count-members nobody's "
            "protected rows. voile cannot recognise an edited copy of those.",
        ),
    ] = None,
    count_members: Annotated[
        Path | None,
        typer.Option(
            metavar="NODE",
            help="Also release how many rows of the party in this folder an attacker would take "
            "for members, with noise: charged to the party's account, where the agreement reserves "
            "it (members_count).",
        ),
    ] = None,
    by: CallerOption = "custodian",
    as_json: JsonOption = False,
) -> None:
    """Rehearse everything that is charged on invented records, and try to refute the claims."""
    from voile.app.assess import (
        MembersAttack,
        MembersCounting,
        assess_subject,
        find_subject,
    )
    from voile.core.one_thread import one_thread

    if not math.isfinite(minutes):
        raise typer.BadParameter(f"expected a number of minutes, found {minutes}")
    if (members is None and count_members is None) != (others is None):
        raise typer.BadParameter("--members or --count-members are given together with --others")
    found, attack, counting = find_subject(subject), None, None
    if members is not None and others is not None:
        attack = MembersAttack.read(subject, members, others)
    if count_members is not None and others is not None:
        counting = MembersCounting.read(subject, count_members, others)
    with interruptible(PAID):
        counted = None if counting is None else _count(counting, by)
    say(f"{len(found.rehearsals)} claims, at most {minutes:g} minutes, on invented records")
    with one_thread(), interruptible(_KEPT):
        done = assess_subject(found, seconds=60 * minutes, seen=progress_line())
    end_line()
    _show(done, counted, as_json=as_json)
    if attack is not None:
        say(f"findings on members, not for release: {attack.run()}")
    codes = {"refuted": ExitCode.CLAIM_REFUTED, "blind": ExitCode.ATTACK_BLIND}
    raise typer.Exit(codes.get(done.verdict.value, ExitCode.DONE))


def _count(counting: MembersCounting, by: str) -> MembersCount:
    """Before the minutes of the attack: whoever cannot pay for it is told now."""
    say(
        "rows that --others shares with the party, not for release, to be read before the count is "
        f"published: {counting.write_copied_rows()}"
    )
    found = counting.release(caller=by)
    say(f"count of members, with its receipt: {counting.path}, {counting.receipt.name}")
    return found


def progress_line() -> Seen:
    """Who is tried and how long it takes: a line that is rewritten on a terminal, on stderr."""
    shown = {"terminal": 0.0, "log": 0.0}

    def is_due(where: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - shown[where] < seconds:
            return False
        shown[where] = now
        return True

    def show(tried: Tried) -> None:
        minutes, seconds = divmod(round(tried.seconds_left), 60)
        text = (
            f"{tried.name}: {tried.runs:,} runs; half of the noise was found out for "
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


def _show(done: Assessment, counted: MembersCount | None, *, as_json: bool) -> None:
    if as_json:
        from voile.app.assessment_file import find_assessment

        said = {} if counted is None else {"members_count": counted.to_dict()}
        found = find_assessment(done.path.parent) or {}
        print_json({**found, **said})
        return
    lines = [_line(each) for each in done.events]
    lines += [f"not rehearsed  {reason}" for reason in done.subject.left_out]
    lines += [] if counted is None else ["", str(counted), f"guarantee: {counted.guarantees[0]}"]
    logged = "no log here to record it in" if done.record is None else f"record {done.record}"
    console().print(
        "\n".join([*lines, "", f"verdict   {done.verdict.value}", f"findings  {done.path}"])
        + f"\nlog       {logged}",
        soft_wrap=True,
        highlight=False,
    )


def _line(each: object) -> str:
    from voile.app.report import rounded_up
    from voile.attacks.assessment import Assessed, Verdict

    assert isinstance(each, Assessed)
    blind = each.verdict is Verdict.BLIND
    claim = f"claim ε = {rounded_up(each.epsilon)}, δ = {rounded_up(each.delta)}"
    said = f"{each.verdict.value:<12} {each.name}: {claim}; {each.runs:,} runs"
    said += f", e-value {each.e_value:.3g} of {each.threshold:g}"
    if each.verdict is Verdict.NOT_REFUTED:
        said += (
            f"; half of the noise was found out after {each.control_runs:,} runs; a claim of "
            f"ε = {each.epsilon_found:.3g} with more noise would have been refuted (95 %)"
        )
    return said + ("; nothing follows: give it more --minutes" if blind else "")
