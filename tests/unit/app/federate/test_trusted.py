"""A trusted federation from its files to an artefact, records, an anchor and a report."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import exact_trust_html, report_html
from tests.unit.app.federate.test_run import CHOSEN, CLINIC, write_files
from tests.unit.pipelines.trusted_parties import planned, trained

from voile.app.artefact import Artefact, load_artefact
from voile.app.federate import ExactTrustLog, Job, federate, read_job
from voile.app.federate.kinds import KINDS
from voile.app.report import check_log, write_exact_trust
from voile.core.errors import InvalidInput
from voile.federation.arrays import digest_of_arrays
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging import EXACT, TrustRule, weights_of
from voile.records.audit_log import (
    EvidenceRecord,
    FederationRoundRecord,
    RewardRecord,
    TrustRecord,
    WeightingRecord,
    decode_record,
    verify_export,
)
from voile.records.checkpoints import read_policy
from voile.records.vault import open_vault

ROUNDS = 3


def write_trusted(folder: Path) -> Path:
    config = write_files(folder)
    text = config.read_text().replace("private explainer", "trusted", 1)
    config.write_text(text.replace("hidden = [16]\n", ""))
    # So little noise that no round goes without a party that agrees with the public rows.
    for file in (config, *folder.glob("nodes/*/node.toml")):
        text = file.read_text()
        assert "epsilon = 3" in text
        file.write_text(
            text.replace("epsilon = 3.0", "epsilon = 3").replace("epsilon = 3", "epsilon = 300")
        )
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_trusted(tmp_path_factory.mktemp("trusted")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def records_of(artefact: Artefact, party: str = "server") -> list[Any]:
    lines = (artefact.log_folder(party) / "records.jsonl").read_bytes().splitlines()
    return [decode_record(line) for line in lines]


def rounds_of(artefact: Artefact) -> list[float]:
    """In which updates counted: noise may leave a round without any."""
    parties = artefact.figures["trust"]["parties"]
    return sorted({row["round"] for rows in parties.values() for row in rows})


def test_it_promises_what_was_agreed_on_and_charges_once_a_round(
    job: Job, artefact: Artefact
) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee == job.agreement.plan.guarantee()
    assert guarantee.epsilon <= job.agreement.epsilon
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))
    for name in CHOSEN:
        kinds = [record.kind for record in records_of(artefact, name)]
        assert kinds.count("participation") == ROUNDS


def test_every_round_has_a_record_of_trust_and_reward_for_each_party(artefact: Artefact) -> None:
    records = records_of(artefact)
    trust = [record for record in records if isinstance(record, TrustRecord)]
    rewards = [record for record in records if isinstance(record, RewardRecord)]
    rounds = [record for record in records if isinstance(record, FederationRoundRecord)]
    counted = rounds_of(artefact)
    assert counted, "no round in which any update agreed with the public rows"
    assert len(trust) == len(rewards) == len(counted) * len(CHOSEN)
    assert len(rounds) == ROUNDS
    assert {record.covered for record in trust} == {"released"}
    for number in counted:
        assert sum(r.weight for r in trust if r.round == number) == pytest.approx(1)
        assert sum(r.reward for r in rewards if r.round == number) == pytest.approx(1)
    chained = [record.previous_hash for record in rounds]
    assert chained == [None, *(record.published_hash for record in rounds[:-1])]


def test_the_published_hash_can_be_computed_again(artefact: Artefact) -> None:
    """That of the last round: its model, before it was calibrated, is in the artefact."""
    from voile.records.audit_log import published_round_hash

    records = records_of(artefact)
    last = [record for record in records if isinstance(record, FederationRoundRecord)][-1]
    trust = {r.client: r for r in records if isinstance(r, TrustRecord) and r.round == ROUNDS}
    arrays = artefact.trained
    weights = np.concatenate([np.asarray(arrays[name]).ravel() for name in sorted(arrays)])
    found = published_round_hash(
        weights,
        list(artefact.figures["trust"]["importance"].values()) if trust else (),
        {n: r.divergence for n, r in trust.items()},
        {n: r.trust for n, r in trust.items()},
        last.previous_hash or b"",
    )
    assert found == last.published_hash


def weighted_again(records: list[Any], parties: int) -> list[WeightingRecord]:
    """Rounds whose weights and rewards follow from their records, by arithmetic of its own."""
    checked: list[WeightingRecord] = []
    for about in (r for r in records if isinstance(r, WeightingRecord)):
        now = [r for r in records if getattr(r, "round", None) == about.round]
        seen = {r.client: r for r in now if isinstance(r, EvidenceRecord)}
        trust = {r.client: r for r in now if isinstance(r, TrustRecord)}
        rewards = {r.client: r.reward for r in now if isinstance(r, RewardRecord)}
        assert len(seen) == parties
        medians = [
            float(np.median([getattr(r, what) for r in seen.values()]))
            for what in ("discrimination", "cosine")
        ]
        assert medians == [about.median_discrimination, about.median_cosine]
        if medians[0] > max(about.needed, 0) and medians[1] > 0:
            assert about.told_apart == 1
            for each in seen.values():
                assert each.scored == min(max(each.discrimination / medians[0], 0), 1)
                assert each.matched == min(max(each.cosine / medians[1], 0), 1)
        if not trust:  # no update counted
            continue
        fits = {n: about.shortest <= r.length <= about.longest for n, r in seen.items()}
        if about.told_apart:
            worth = {
                n: fits[n]
                * trust[n].trust
                * max(0.0, 1 - about.tau * trust[n].divergence)
                * seen[n].matched
                for n in seen
            }
            earned = {n: fits[n] * trust[n].trust * r.matched * r.scored for n, r in seen.items()}
        else:
            worth = earned = {n: float(fits[n]) for n in seen}
        share = {n: each / sum(worth.values()) for n, each in worth.items()}
        if max(share.values()) > about.largest_share:
            (top,) = (n for n, each in share.items() if each > about.largest_share)
            rest = sum(each for n, each in share.items() if n != top)
            share = {
                n: about.largest_share if n == top else (1 - about.largest_share) * each / rest
                for n, each in share.items()
            }
        assert {n: r.weight for n, r in trust.items()} == pytest.approx(share)
        paid = {n: each / sum(earned.values()) for n, each in earned.items()}
        assert rewards == pytest.approx(paid)
        checked.append(about)
    return checked


def test_a_third_party_computes_weights_and_rewards_again_from_the_log(
    job: Job, artefact: Artefact
) -> None:
    checked = weighted_again(records_of(artefact), len(CHOSEN))
    assert checked, "no round counted"
    plan: Any = job.agreement.plan
    ready: Any
    ready, _ = KINDS["trusted"].prepared(
        plan, TableRecords.from_dataset(CLINIC.hospitals["mountain"])
    )
    about = checked[-1]
    assert about.public_rows.hex() == digest_of_arrays(ready.public.given)
    assert (about.rows, about.steps) == (len(ready.public.rows), plan.training.steps)
    assert about.rate == plan.training.rate_in(about.round)
    assert about.clipping_norm is not None


def test_the_log_is_enough_to_weigh_again_where_parties_are_told_apart(tmp_path: Path) -> None:
    plan = planned(verified=True)
    with open_vault(tmp_path, "example.org/told", signing=None) as vault:
        found = trained(plan, log=ExactTrustLog(vault, "clinics", plan.rule))
        records = vault.storage.submit(vault.log.records)
    checked = weighted_again(list(map(decode_record, records)), len(found.history.scores))
    assert len(checked) == 3
    assert any(about.told_apart for about in checked)


def test_any_change_of_a_recorded_round_is_noticed(artefact: Artefact) -> None:
    folder = artefact.log_folder("server")
    policy = read_policy(folder / "audit-policy.toml")
    note = (folder / "checkpoint.txt").read_bytes()
    lines = (folder / "records.jsonl").read_bytes().splitlines()
    assert verify_export(lines, note, policy).verified
    changed = 0
    for place, line in enumerate(lines):
        record = json.loads(line)
        kinds = ("trust", "reward", "federation round", "weighting", "evidence")
        if record["kind"] not in kinds:
            continue
        fields = {"trust", "reward", "weight", "divergence", "model", "round", "cosine", "needed"}
        for field in record.keys() & fields:
            value = record[field]
            other = (
                value + 1
                if isinstance(value, int)
                else value[:-1] + ("0" if value[-1] != "0" else "1")
            )
            text = json.dumps(record | {field: other}, separators=(",", ":"), sort_keys=True)
            wrong = [*lines[:place], text.encode(), *lines[place + 1 :]]
            assert not verify_export(wrong, note, policy).verified, (place, field)
            changed += 1
    assert changed > 20


def test_its_report_shows_trust_and_names_who_stands_out(artefact: Artefact) -> None:
    page = report_html(artefact)
    assert "log-loss of the model" in page
    assert "black box" not in page
    assert "Whom the federation trusts" in page
    assert "trust, divergence and rewards of each party over rounds" in page
    assert "Who stands out" in page
    for name in CHOSEN:
        assert f"<td>{name}</td>" in page
    figures = load_artefact(artefact.folder).figures["trust"]
    assert set(figures["parties"]) == set(CHOSEN)
    assert figures["rule"]["tau"] == TrustRule().tau
    assert sum(figures["importance"].values()) == pytest.approx(1, abs=1e-5)


def test_a_run_that_is_broken_off_goes_on_with_everybody_s_record(tmp_path: Path) -> None:
    job = read_job(write_trusted(tmp_path))

    class Stop(BaseException):
        pass

    def seen(progress: Any) -> None:
        if progress.round == 2 and progress.done:
            raise Stop

    with pytest.raises(Stop):
        federate(job, rounds_seen=seen)
    found = federate(job).artefact
    trust = [r for r in records_of(found) if isinstance(r, TrustRecord)]
    written = sorted((record.round, record.client) for record in trust)
    assert written == sorted((n, name) for n in rounds_of(found) for name in CHOSEN), "once each"


def test_too_few_open_rows_to_compare_models_on(tmp_path: Path) -> None:
    config = write_trusted(tmp_path)
    held_out = tmp_path / "held-out.csv"
    held_out.write_text("\n".join(held_out.read_text().splitlines()[:15]) + "\n")
    with pytest.raises(InvalidInput, match="half to compare models on"):
        federate(read_job(config))


def test_hidden_layers_are_an_option(tmp_path: Path) -> None:
    config = write_trusted(tmp_path)
    config.write_text(config.read_text().replace("rounds = 3", "rounds = 3\nhidden = [64, 32]"))
    plan = read_job(config).agreement.plan
    assert plan.stages[0].task.shapes
    assert len(plan.stages[0].task.shapes) == 6
    shutil.rmtree(tmp_path / "nodes")


def test_in_secret_the_server_gets_the_same_record_from_sums_alone(tmp_path: Path) -> None:
    config = write_trusted(tmp_path)
    text = config.read_text()
    assert "# secure = true  " in text
    config.write_text(
        text.replace("# secure = true  ", "secure = true  ").replace("rounds = 3", "rounds = 2")
    )
    found = federate(read_job(config)).artefact
    parties = found.figures["trust"]["parties"]
    assert {name: len(rows) for name, rows in parties.items()} == dict.fromkeys(CHOSEN, 2)
    assert all(check_log(found, name).failed is None for name in ("server", *CHOSEN))
    kinds = [record.kind for record in records_of(found, CHOSEN[0])]
    assert kinds.count("participation") == 2
    page = " ".join(report_html(found).split())
    assert "the server sees of each party its accuracy" in page
    assert "a party that lies is not found out" in page
    trust = [r for r in records_of(found) if isinstance(r, TrustRecord) and r.round == 2]
    divergences = {r.client: r.divergence for r in trust}
    shares = weights_of(TrustRule(), {r.client: r.trust for r in trust}, divergences).shares
    assert {r.client: r.weight for r in trust} == pytest.approx(shares)


def test_without_privacy_every_record_says_that_it_is_exact(tmp_path: Path) -> None:
    plan = planned(rounds=2)
    with open_vault(tmp_path, "example.org/exact", signing=None) as vault:
        log = ExactTrustLog(vault, "clinics", plan.rule)
        found = trained(plan, log=log)
        records = vault.storage.submit(vault.log.records)
    trust = [r for r in map(decode_record, records) if isinstance(r, TrustRecord)]
    assert len(trust) == 2 * len(found.history.scores)
    assert {record.covered for record in trust} == {"exact"}
    assert EXACT in found.promise().notes


def test_rounds_without_privacy_have_a_page_that_says_what_is_exact(tmp_path: Path) -> None:
    found = trained(planned())
    page = exact_trust_html(found, "<b>clinics</b>")
    assert "No privacy guarantee" in page
    assert EXACT in html.unescape(page)
    assert "No promise covers any of this." in page
    assert "covered by the" not in page
    assert "<b>clinics</b>" not in page
    for name in found.history.scores:
        assert f"<td>{name}</td>" in page
    assert write_exact_trust(found, "clinics", tmp_path / "trust.html").stat().st_size > 10_000


def test_a_federation_with_noise_has_a_report_and_not_that_page() -> None:
    with pytest.raises(InvalidInput, match="trained with noise"):
        exact_trust_html(trained(planned(epsilon=8.0, rounds=1)), "clinics")
