"""A party releases how many of its rows an attacker would name: charged where training was."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.assess import command
from tests.unit.app.federate.test_guided import write_guided
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.app.federate.test_run import party

from voile.app.artefact import HISTORY, Artefact
from voile.app.artefact_manifest import MANIFEST
from voile.app.assess import MembersCounting, find_subject
from voile.app.explain import ReleaseService
from voile.app.federate import federate, open_node, read_agreement, read_job
from voile.app.model_files import BLACK_BOX
from voile.assess.members_count import (
    NOT_FOR_RELEASE,
    MembersCount,
    OpenThreshold,
    PrivateMembersCount,
    count_event,
)
from voile.assess.training_canaries import TrainingCanaries
from voile.cli.app import app
from voile.core import array_file
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Relation
from voile.federation import Outcome, read_history, write_history
from voile.federation.stored_text import write_arrays
from voile.pipelines.calibration import Calibration
from voile.records.ledger import recent_charges
from voile.records.ledger.event_text import event_text
from voile.records.vault import Place, open_vault_at

EPSILON = 0.5


def reserving(config: Path, epsilon: object = EPSILON) -> Path:
    wanted = rf"\1\nmembers_count = {epsilon}"
    text, changed = re.subn(r"^(\[privacy\].*)$", wanted, config.read_text(), flags=re.MULTILINE)
    assert changed == 1
    config.write_text(text)
    return config


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = reserving(write_logistic(tmp_path_factory.mktemp("study")))
    federate(read_job(config))
    return config.parent


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A finished federation of one's own."""
    return Path(shutil.copytree(finished, tmp_path / "study"))


def counting(study: Path, party: str = "city") -> MembersCounting:
    artefact, others = study / "output" / "artefact", study / "held-out.csv"
    return MembersCounting.read(artefact, study / "nodes" / party, others)


def charges(study: Path, party: str = "city") -> list[str]:
    with open_vault_at(Place.within(study / "nodes" / party)) as vault:
        name = f"study v1: {party}"
        found = vault.storage.read_snapshot(
            lambda t: recent_charges(vault.ledger, t, name, since=-np.inf)
        )
        assert ReleaseService(vault).verify().failed is None
    return [each.event for each in found]


def test_the_count_is_a_part_of_what_was_promised(study: Path) -> None:
    agreement = read_agreement(study / "federation.toml")
    reserved = count_event(EPSILON, Relation.BLANK_ONE)
    assert agreement.events_of("city")[-1] == reserved
    assert agreement.plan.guarantee().epsilon <= agreement.epsilon - reserved.epsilon
    found = counting(study).release(caller="custodian")
    assert found.members == 102
    (joint,) = found.guarantees
    assert joint.epsilon <= agreement.epsilon
    assert charges(study)[0] == event_text(reserved)
    assert found.charge is not None


def test_asked_again_it_is_the_same_and_costs_nothing_more(study: Path) -> None:
    first = counting(study).release(caller="custodian")
    paid = charges(study)
    assert counting(study).release(caller="custodian") == first
    assert charges(study) == paid


def test_the_figure_is_kept_with_a_receipt_that_proves_it(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    found = counting(study)
    counted = found.release(caller="custodian")
    assert json.loads(found.path.read_text())["count"] == counted.count
    monkeypatch.chdir(found.path.parent)
    words = ["audit", "verify", found.receipt.name, "--policy", "audit-policy.toml", "--answer"]
    assert CliRunner().invoke(app, [*words, found.path.name]).exit_code == 0
    found.path.write_text(found.path.read_text().replace('"count": ', '"count": 1'))
    assert CliRunner().invoke(app, [*words, found.path.name]).exit_code != 0


def test_a_second_threshold_is_not_paid_for(study: Path) -> None:
    counting(study).release(caller="custodian")
    lines = (study / "held-out.csv").read_text().splitlines(keepends=True)
    (study / "held-out.csv").write_text("".join(lines[:40]))
    paid = charges(study)
    with pytest.raises(BudgetExceeded, match=r"already counted its members.*fits 0 more times"):
        counting(study).release(caller="custodian")
    assert charges(study) == paid
    done = run(study, "--count-members", study / "nodes/city", "--others", study / "held-out.csv")
    assert isinstance(done.exception, BudgetExceeded)
    assert "claims, at most" not in done.output  # before the minutes of the attack


def test_an_agreement_that_reserves_nothing_has_no_count(tmp_path: Path) -> None:
    config = write_logistic(tmp_path)
    agreement = read_agreement(config)
    assert agreement.reserved == ()
    folder = federate(read_job(config)).artefact.folder
    with pytest.raises(Refused, match="reserves no budget"):
        MembersCounting.read(folder, tmp_path / "nodes" / "city", tmp_path / "held-out.csv")


@pytest.mark.parametrize(
    ("epsilon", "said"), [(3, "a part of epsilon = 3"), (3.5, "a part of"), (0, "members_count")]
)
def test_neither_all_nor_nothing_can_be_reserved(tmp_path: Path, epsilon: float, said: str) -> None:
    config = reserving(write_logistic(tmp_path), epsilon)
    with pytest.raises(InvalidInput, match=said):
        read_agreement(config)


def test_members_are_not_counted_where_columns_are_protected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="where rows are protected"):
        read_agreement(reserving(write_guided(tmp_path), 0.1))


def test_what_is_reserved_is_part_of_the_agreement(tmp_path: Path) -> None:
    config = write_logistic(tmp_path)
    text, without = config.read_text(), read_agreement(config).digest
    digests = {without}
    for epsilon in (0.25, 0.5):
        config.write_text(text)
        digests.add(read_agreement(reserving(config, epsilon)).digest)
    assert len(digests) == 3


def test_the_model_is_that_of_the_same_account(study: Path) -> None:
    """What the artefact says was charged is looked up in the party's own journal."""
    path = study / "output" / "artefact" / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["settings"]["agreement"] = "0" * 64
    path.write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="was not charged as"):
        counting(study)
    manifest["settings"]["agreement"] = read_agreement(study / "federation.toml").digest
    manifest["settings"]["members_count"] = 0.25
    path.write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="has no count of members at"):
        counting(study)


def test_rows_that_are_not_those_of_the_training_are_refused(study: Path) -> None:
    lines = (study / "city.csv").read_text().splitlines(keepends=True)
    (study / "city.csv").write_text("".join(lines[:-1]))
    with pytest.raises(Refused, match="trained on 102 rows and now has 101"):
        counting(study)


def test_protected_rows_fix_no_threshold(study: Path) -> None:
    artefact, node = study / "output" / "artefact", study / "nodes" / "city"
    with pytest.raises(Refused, match="name the same file"):
        MembersCounting.read(artefact, node, study / "city.csv")


def test_a_party_that_has_counted_still_takes_part(study: Path) -> None:
    """A count is no round of another agreement."""
    counting(study).release(caller="custodian")
    job = read_job(study / "federation.toml")
    with open_node(party(job, "city"), job.agreement) as node:
        node.client.guard.before_joining()


def test_what_is_reserved_is_audited_and_told(study: Path) -> None:
    artefact = study / "output" / "artefact"
    for subject in (find_subject(artefact), find_subject(study / "federation.toml")):
        assert subject.trials[-1].name == PrivateMembersCount.name
        assert subject.trials[-1].event == count_event(EPSILON, Relation.BLANK_ONE)
    from voile.app.artefact import load_artefact

    opened: Artefact = load_artefact(artefact)
    assert "a count of members, at ε = 0.5" in " ".join(report_html(opened).split())


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: TrainingCanaries, _: Any) -> dict[str, Any]:
        return {name: np.zeros(self.canaries) for name in self.score_names}

    monkeypatch.setattr(TrainingCanaries, "_scores", nothing)


def run(study: Path, *arguments: object) -> Any:
    return command.run(study / "output" / "artefact", "--minutes", 0.01, *arguments)


@pytest.mark.usefixtures("sees_nothing")
def test_the_count_is_told_and_decides_nothing(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is counted, verdict and exit code are the same."""
    made, sizes = PrivateMembersCount._made, read_agreement(study / "federation.toml").sizes
    counts = {sizes["city"]: 0, sizes["coast"]: 60}
    monkeypatch.setattr(
        PrivateMembersCount,
        "draw",
        lambda self, _=None: made(self, counts.get(len(self.members), 0), self.threshold),
    )
    for name, count in (("city", 0), ("coast", 60)):
        done = run(
            study,
            "--count-members",
            study / "nodes" / name,
            "--others",
            study / "held-out.csv",
            "--json",
        )
        told = json.loads(done.stdout)
        assert (done.exit_code, told["verdict"]) == (7, "blind")
        assert told["members_count"]["count"] == count
        assert told["members_count"]["guarantees"][0]["delta"] > 0
        assert (
            "members_count" not in (study / "output" / "artefact" / "assessment.json").read_text()
        )


@pytest.mark.usefixtures("sees_nothing")
def test_people_are_told_with_the_guarantee(study: Path) -> None:
    words = ("--count-members", study / "nodes" / "city", "--others", study / "held-out.csv")
    done = run(study, *words)
    assert "members above the threshold:" in done.stdout
    assert "guarantee: (ε = " in done.stdout
    assert run(study, *words[:2]).exit_code == 2


def test_what_cannot_be_paid_is_said_before_anything_is_tried(study: Path) -> None:
    (study / "nodes" / "city" / "log.db").unlink()
    words = ("--count-members", study / "nodes" / "city", "--others", study / "held-out.csv")
    done = run(study, *words)
    assert "claims, at most" not in done.output
    assert isinstance(done.exception, InvalidInput)


def test_an_unpaid_count_is_not_taken(study: Path) -> None:
    found = counting(study)
    with found._books() as vault:
        drawn = found._release(vault).draw()
    assert isinstance(drawn, MembersCount)
    with pytest.raises(Refused, match="nobody was charged"):
        drawn.check_paid()


# --- joints ---------------------------------------------------------------------------------------


def rewrite_manifest(folder: Path, *names: str) -> None:
    """As somebody would who exchanges files: the manifest is not signed."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    for name in names:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert name in manifest["files"]
        manifest["files"][name] = digest
    path.write_text(json.dumps(manifest))


def write_box(folder: Path, arrays: Any, label: Any) -> None:
    write_arrays(folder / BLACK_BOX, "voile black box", arrays, label)
    rewrite_manifest(folder, BLACK_BOX)


def test_a_model_that_did_not_come_of_these_rounds_is_refused(study: Path) -> None:
    """Whatever its file says about calibration: the arrays before it are looked up in the log."""
    folder = study / "output" / "artefact"
    arrays, label = array_file.read(folder / BLACK_BOX, "voile black box")
    found = Calibration.from_plain(label["calibration"])
    other = {name: array + np.float32(1) for name, array in arrays.items()}
    write_box(folder, other, {})
    with pytest.raises(Refused, match="not the one that the server's signed log speaks of"):
        counting(study)
    write_box(folder, other, label)
    with pytest.raises(VerificationFailed, match="not the trained one after calibration"):
        counting(study)
    layer = {name: array.tolist() for name, array in other.items()}
    write_box(folder, found.fold(other), {**label, "trained": layer})
    with pytest.raises(Refused, match="not the one that the server's signed log speaks of"):
        counting(study)


def test_a_history_in_which_a_party_did_nothing_proves_nothing(study: Path) -> None:
    folder = study / "output" / "artefact"
    rows = [replace(row, outcome=Outcome.VANISHED) for row in read_history(folder / HISTORY)]
    write_history(rows, folder / HISTORY)
    rewrite_manifest(folder, HISTORY)
    with pytest.raises(Refused, match="was not charged as"):
        counting(study)


def test_rows_of_another_party_fix_no_threshold(study: Path) -> None:
    (study / "open.csv").hardlink_to(study / "coast.csv")
    artefact, node = study / "output" / "artefact", study / "nodes" / "city"
    with pytest.raises(Refused, match="name the same file"):
        MembersCounting.read(artefact, node, study / "open.csv")


@pytest.mark.parametrize("written", ["true", '"0.5"', "0.02", "1.6"])
def test_what_is_no_part_of_epsilon_is_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(InvalidInput, match="members_count"):
        read_agreement(reserving(write_logistic(tmp_path), written))


def test_minutes_are_a_number(study: Path) -> None:
    assert run(study, "--minutes", "nan").exit_code == 2


def test_another_figure_of_that_name_is_not_overwritten(study: Path) -> None:
    found = counting(study)
    found.path.write_text("mine")
    paid = charges(study)
    with pytest.raises(InvalidInput, match="exists and is not a count"):
        counting(study)
    assert (found.path.read_text(), charges(study)) == ("mine", paid)


# --- copies of protected rows ---------------------------------------------------------------------


def copied(study: Path, others: Path) -> dict[str, float]:
    artefact, node = study / "output" / "artefact", study / "nodes" / "city"
    path = MembersCounting.read(artefact, node, others).write_copied_rows()
    assert path.parent == node / NOT_FOR_RELEASE
    assert path.stat().st_mode & 0o077 == 0
    figures: dict[str, float] = json.loads(path.read_text())["figures"]
    return figures


OTHERS, WRITTEN, READ = (
    "other rows",
    "other rows that are the party's, as written",
    "other rows that are the party's, as read",
)


def test_a_copy_of_own_rows_is_found(study: Path) -> None:
    shutil.copy(study / "city.csv", study / "copy.csv")
    found = copied(study, study / "copy.csv")
    assert found[OTHERS] == found[WRITTEN] == found[READ] == 102
    honest = copied(study, study / "held-out.csv")
    assert honest[WRITTEN] == honest[READ] == 0 < honest[OTHERS]


def test_a_copy_that_is_written_in_another_way_is_found_as_read(study: Path) -> None:
    lines = (study / "city.csv").read_text().splitlines()
    turned = [",".join(f" {cell}" for cell in line.split(",")[::-1]) for line in lines]
    turned[0] = turned[0].replace(" ", "")
    (study / "copy.csv").write_text("\n".join([*turned, ""]))
    found = copied(study, study / "copy.csv")
    assert found[WRITTEN] == 0
    assert found[READ] == 102


def test_an_edited_copy_passes(study: Path) -> None:
    """As docs/assess.md says."""
    header, *lines = (study / "city.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    place = next(n for n, cell in enumerate(cells[0]) if "." in cell)
    for row in cells:
        row[place] = f"{float(row[place]) * 1.001:.6f}"
    (study / "copy.csv").write_text("\n".join([header, *map(",".join, cells), ""]))
    assert copied(study, study / "copy.csv")[READ] < 20


@pytest.mark.usefixtures("sees_nothing")
def test_nothing_that_leaves_says_whether_rows_were_copied(finished: Path, tmp_path: Path) -> None:
    """Texts, exit code and log are the same; the count and its threshold were charged."""
    shown = []
    for name in ("held-out", "copy"):
        study = Path(shutil.copytree(finished, tmp_path / name / "study"))
        rows = (study / "city.csv").read_text().splitlines(keepends=True)
        held_out = (study / "held-out.csv").read_text().splitlines(keepends=True)
        few = rows if name == "copy" else held_out
        (study / "others.csv").write_text("".join(few[:81]))
        node = study / "nodes" / "city"
        done = run(study, "--count-members", node, "--others", study / "others.csv")
        told = done.stderr.replace(str(tmp_path / name), "")
        (finding,) = (node / NOT_FOR_RELEASE).iterdir()
        kept = sorted(path.name for path in node.iterdir())
        figures = json.loads((node / "members-count.txt").read_text())
        shown.append((told, done.exit_code, finding.name, kept, set(figures)))
        assert "copied-rows.json" in told
        assert set(figures["threshold"]) == {"value", "above", "rows"}
        assert "as written" not in done.output
    assert shown[0] == shown[1]


def test_a_count_over_an_exact_threshold_is_given_again(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions did not round; what they stored is still free, and still proved."""
    on = OpenThreshold.on
    with monkeypatch.context() as old:
        old.setattr(OpenThreshold, "on", lambda *given: on(*given).exact)
        first = counting(study).release(caller="custodian")
    path, paid = counting(study).path, charges(study)
    before = path.read_bytes()
    again = counting(study).release(caller="custodian")
    assert (again.count, again.threshold) == (first.count, first.threshold)
    assert again.threshold != counting(study).threshold
    assert path.read_bytes() == before
    assert charges(study) == paid
