"""`Assess`: voile attacks itself."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import model_validator

from voile.app.commands.fields import Command, custodian_field


class Assess(Command):
    """Attack every charged release on invented records, and try to refute its claim.

    >>> Assess(subject="output/artefact", minutes=10).count_members is None
    True
    """

    subject: Path = custodian_field(
        "Folder of an artefact or a recommender, voile.toml, or federation.toml.",
        example="output/artefact",
        option="",
        metavar="ARTEFACT|WORKSPACE|CONFIG",
    )
    minutes: float = custodian_field(
        "Time limit in minutes, for all claims together.", default=2.0, ge=0.01, allow_inf_nan=False
    )
    members: Path | None = custodian_field(
        "Also attack these rows, which the model of ARTEFACT was trained on. The findings are "
        "written to evaluation-not-for-release/ and not shown.",
        default=None,
        metavar="FILE",
    )
    others: Path | None = custodian_field(
        "Rows to compare members with: not trained on, and for --count-members not protected. "
        "voile cannot recognise an edited copy of protected rows.",
        default=None,
        metavar="FILE",
    )
    count_members: Path | None = custodian_field(
        "Also release, with noise, how many rows of the party in this folder an attacker would "
        "take for members. Charged to the party's account, where the agreement reserves it "
        "(members_count).",
        default=None,
        metavar="NODE",
    )
    caller: str = custodian_field(
        "Who does this; recorded in the log.", default="custodian", formerly=("--by",)
    )

    @model_validator(mode="after")
    def _rows_are_compared(self) -> Self:
        if (self.members is None and self.count_members is None) != (self.others is None):
            raise ValueError(
                "--members and --count-members need --others, and --others needs one of them"
            )
        return self
