"""`voile assess`: voile attacks itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.output import ExitCode, JsonOption, console, print_json
from voile.cli.rounds import say

if TYPE_CHECKING:
    from voile.workflows.assess import Assessment

EPILOG = """\
Examples:

  voile assess output/artefact

  voile assess voile.toml --minutes 10

  voile assess federation.toml   (before anything is charged)

Verdicts: "refuted" is a proof that more is released than charged for (exit code 6); "not refuted"
says that an attack which finds out half of the noise found nothing; "blind" that the time was too
short to say even that (exit code 7). None of them says "safe".
"""


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
        typer.Option(metavar="FILE", help="Rows to compare members with; not trained on."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Rehearse everything that is charged on invented records, and try to refute the claims."""
    from voile.core.one_thread import one_thread
    from voile.workflows.assess import MembersAttack, assess_subject, find_subject

    if (members is None) != (others is None):
        raise typer.BadParameter("--members and --others are given together")
    found, attack = find_subject(subject), None
    if members is not None and others is not None:
        attack = MembersAttack.read(subject, members, others)
    say(f"{len(found.rehearsals)} claims, at most {minutes:g} minutes, on invented records")
    with one_thread():
        done = assess_subject(found, seconds=60 * minutes)
    _show(done, as_json=as_json)
    if attack is not None:
        say(f"findings on members, not for release: {attack.run()}")
    codes = {"refuted": ExitCode.CLAIM_REFUTED, "blind": ExitCode.ATTACK_BLIND}
    raise typer.Exit(codes.get(done.verdict.value, ExitCode.DONE))


def _show(done: Assessment, *, as_json: bool) -> None:
    if as_json:
        from voile.workflows.assessment_file import find_assessment

        print_json({**(find_assessment(done.path.parent) or {}), "record": done.record})
        return
    lines = [_line(each) for each in done.events]
    lines += [f"not rehearsed  {reason}" for reason in done.subject.left_out]
    logged = "no log here to record it in" if done.record is None else f"record {done.record}"
    console().print(
        "\n".join([*lines, "", f"verdict   {done.verdict.value}", f"findings  {done.path}"])
        + f"\nlog       {logged}",
        soft_wrap=True,
        highlight=False,
    )


def _line(each: object) -> str:
    from voile.attacks.assessment import Assessed, Verdict
    from voile.workflows.report import rounded_up

    assert isinstance(each, Assessed)
    claim = f"claim ε = {rounded_up(each.epsilon)}, δ = {rounded_up(each.delta)}"
    said = f"{each.verdict.value:<12} {each.name}: {claim}; {each.runs:,} runs"
    said += f", e-value {each.e_value:.3g} of {each.threshold:g}"
    if each.verdict is Verdict.NOT_REFUTED:
        said += (
            f"; half of the noise was found out after {each.control_runs:,} runs; a claim of "
            f"ε = {each.epsilon_found:.3g} with more noise would have been refuted (95 %)"
        )
    return said
