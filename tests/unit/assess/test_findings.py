"""Provenance decides what may be told."""

from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from experiments.lib.attacks.findings import AttackFinding, InventedRecords, OpenRows

from voile.assess.members_count import NOT_FOR_RELEASE, MembersFinding
from voile.core.errors import Refused

FACTS: dict[str, Any] = {
    "attack": "the day after",
    "measure": "share named right",
    "plain": 1.0,
    "protected": 0.01,
    "blind": 0.003,
    "release": "two explanations",
    "epsilon": 2.0,
    "delta": 1e-5,
    "rows": 100,
    "trials": 300,
}
ABOUT_MEMBERS = MembersFinding("membership by outputs", "clinic 2026", {"area": 0.61803})


@pytest.mark.parametrize("on", [InventedRecords(), OpenRows("held out")])
def test_findings_about_nobody_may_be_told(on: Any) -> None:
    told = AttackFinding(**FACTS, on=on).to_dict()
    assert told["on"] == str(on)
    json.dumps(told)


def test_a_finding_on_members_is_no_finding_to_publish() -> None:
    wrong: list[Any] = [ABOUT_MEMBERS, "invented records", None]
    for on in wrong:
        with pytest.raises(Refused, match="only findings on invented records"):
            AttackFinding(**FACTS, on=on)


def test_a_finding_on_members_prints_nothing_and_is_not_copied() -> None:
    assert "0.618" not in repr(ABOUT_MEMBERS) + str(ABOUT_MEMBERS)
    assert not hasattr(ABOUT_MEMBERS, "to_dict")
    with pytest.raises(TypeError, match="in no other way"):
        pickle.dumps(ABOUT_MEMBERS)


def test_a_finding_on_members_goes_to_one_folder(tmp_path: Path) -> None:
    path = ABOUT_MEMBERS.write(tmp_path)
    assert path.parent == tmp_path / NOT_FOR_RELEASE
    assert json.loads(path.read_text())["figures"] == {"area": 0.61803}
    assert [stat.S_IMODE(each.stat().st_mode) & 0o077 for each in (path, path.parent)] == [0, 0]
