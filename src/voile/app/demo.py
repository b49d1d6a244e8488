"""`voile demo`: the main job on invented hospitals whose truth is known.

Eight hospitals train a model of readmission together, from sums that nobody sees but as a whole,
with differential privacy for each patient. Then one patient's explanation is made, recorded and
checked. Because the data are invented, the result is compared with the truth, and with a network
that is trained at the same price: such figures go into a folder that is never published.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.app.artefact import Artefact
from voile.app.calls import Context
from voile.app.commands.workspace import RunDemo
from voile.app.explain import ReleaseService
from voile.app.explain.building import ClosedForm
from voile.app.explain.files import RECEIPT, draw
from voile.app.federate import (
    NOT_FOR_RELEASE,
    SERVER,
    FederationAgreement,
    Job,
    Party,
    Say,
    ServerSide,
    federate,
    origin_of,
    party_key,
)
from voile.app.federate.files import NODES
from voile.app.federate.party import LOCK
from voile.app.federate.run import ARTEFACT, CHECKPOINTS
from voile.app.federate.statistics import STATISTICS
from voile.app.federate.status import STATUS as RUN_STATUS
from voile.app.output_check import files_of
from voile.app.public_example import EXAMPLE, write_example
from voile.app.report import check_log, write_report
from voile.attribution import ExactShapley
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, VerificationFailed
from voile.core.guarantee import Guarantee, Protected, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import Seeded
from voile.core.schema import Rows
from voile.datasets import ClinicFederation, Dataset, clinic_federation
from voile.evaluation import cosine_similarity, judge_classes
from voile.federation import (
    Client,
    Node,
    NoGuard,
    Progress,
    Rounds,
    SeededSources,
    Threads,
    Unprotected,
)
from voile.federation.secure_aggregation import HonestButCurious
from voile.federation.stored_text import file_stem
from voile.models import Box, Model, wrap
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.objectives import BLACK_BOX
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.records.audit_log import verify_receipt
from voile.records.vault import WORKSPACE, Place, open_vault
from voile.release import PostProcessed
from voile.release.contract import ExplainerName

NAME: Final = "clinic demo v1"
EPSILON: Final = 2.0
DELTA: Final = 1e-5
NETWORK: Final = "private explainer"
COLLUDERS: Final = 1
MARKER: Final = "voile-demo.txt"
PATIENTS: Final = "patients.csv"
COMPARISON: Final = "comparison.json"
_EXPLANATION: Final = "explanation.voile"
_PICTURE: Final = "explanation.png"
_ONE_PATIENT: Final = (_EXPLANATION, _PICTURE, str(Path(_EXPLANATION).with_suffix(RECEIPT)))
_FOLDERS: Final = (ARTEFACT, CHECKPOINTS, NODES, NOT_FOR_RELEASE)
_MARKED: Final = b"Made by `voile demo`, which replaces what it wrote here and keeps the rest.\n"
_REFERENCE_ROWS: Final = 50
_EXPLAINED_ROWS: Final = 20
_ELSEWHERE: Final = 2026
"""Seed of patients who were in none of the eight hospitals. It makes data, never noise."""


@dataclass(frozen=True)
class JudgedModel:
    """How good probabilities are, on patients of no hospital.

    Args:
        cosine: of its explanations to those of the true risk; None where it has none.
    """

    auc: float
    log_loss: float
    cosine: float | None


@dataclass(frozen=True)
class Demo:
    """What the demo made, and where it lies.

    Args:
        judged: the private model, beside a network at the same price, always stating the label
            rate, and the true risk; by name.
        guarantee: of everything that left a hospital.
        records: in all logs, each of which was checked.
        explanation, picture, receipt: of one patient.
    """

    folder: Path
    report: Path
    judged: dict[str, JudgedModel]
    guarantee: Guarantee
    records: int
    clients: dict[str, int]
    explanation: Path
    picture: Path
    receipt: Path


def run(
    output: Path,
    *,
    rows_per_hospital: int = 5_000,
    rounds_seen: Progress | None = None,
    steps_seen: Callable[[int, int], None] | None = None,
    say: Say = lambda _: None,
) -> Demo:
    """Run the main job into a folder, and in place of what an earlier demo wrote there."""
    _clear(output)
    clinic = clinic_federation(rows_per_hospital, reference_rows=_REFERENCE_ROWS)
    elsewhere = clinic_federation(500, seed=_ELSEWHERE).together()
    job = _job(clinic, TableRecords.from_dataset(elsewhere), output)
    done = federate(job, rounds_seen=rounds_seen, steps_seen=steps_seen, say=say)
    say("a network at the same price, to compare with: possible because these data are invented")
    judged = _judge(job, clinic, done.artefact, elsewhere)
    say("one patient's explanation, on record, with a receipt")
    explanation, picture, receipt = _one_patient(done.artefact, output, elsewhere.rows)
    records = _check_logs(done.artefact)
    _write_comparison(output, judged)
    return Demo(
        folder=output,
        report=write_report(done.artefact),
        judged=judged,
        guarantee=done.artefact.guarantees[0],
        records=records,
        clients={name: len(data) for name, data in clinic.hospitals.items()},
        explanation=explanation,
        picture=picture,
        receipt=receipt,
    )


def run_demo(command: RunDemo, context: Context) -> Demo:
    """What `voile demo` does."""
    with one_thread(), context.interruptible(kept="the demo begins anew"):
        return run(
            command.folder,
            rows_per_hospital=command.rows,
            rounds_seen=context.watch,
            steps_seen=context.steps,
            say=context.say,
        )


def _job(clinic: ClinicFederation, held_out: TableRecords, output: Path) -> Job:
    """Each hospital with a folder of its own; in real life it is on a machine of its own."""
    parties = tuple(
        Party(name, TableRecords.from_dataset(data), output / NODES / file_stem(name))
        for name, data in clinic.hospitals.items()
    )
    agreement = FederationAgreement(
        protected=Protected(CLIPPED_UNIT, Relation.BLANK_ONE, NAME),
        schema=clinic.schema,
        sizes={party.name: len(party.records) for party in parties},
        epsilon=EPSILON,
        delta=DELTA,
        keys={each.name: party_key(each.folder, origin_of(NAME, each.name)) for each in parties},
        pipeline=STATISTICS,
        rounds=1,
        secure=HonestButCurious(COLLUDERS),
        server_key=party_key(output, origin_of(NAME, SERVER)),
    )
    return Job(agreement, ServerSide(output, held_out), parties)


def _clear(output: Path) -> None:
    """Only what an earlier demo wrote is removed, by its names; anything else is kept."""
    if output.exists() and any(output.iterdir()):
        if not (output / MARKER).exists():
            raise InvalidInput(
                f"{output}: the folder is not empty and was not made by `voile demo`; choose "
                "another folder"
            )
        for path in written_into(output):
            _remove(path)
    output.mkdir(parents=True, exist_ok=True)
    replace_file(output / MARKER, _MARKED)


def written_into(output: Path) -> list[Path]:
    """Files and folders of the demo, but for its mark, whether they are there or not."""
    names = (*_FOLDERS, LOCK, RUN_STATUS, WORKSPACE, EXAMPLE, PATIENTS, *_ONE_PATIENT)
    return [*(output / name for name in names), *files_of(Place.within(output))]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# --- against the truth ----------------------------------------------------------------------------


def _judge(
    job: Job, clinic: ClinicFederation, artefact: Artefact, elsewhere: Dataset
) -> dict[str, JudgedModel]:
    """On patients of no hospital; explanations over public reference rows, all in one game."""
    chosen = elsewhere.rows[:: len(elsewhere) // _EXPLAINED_ROWS][:_EXPLAINED_ROWS]
    risk = wrap(clinic.risk, outputs=Box(0, 1))
    truth = _interventional(risk, clinic, chosen)

    def judged(model: Model) -> JudgedModel:
        said = np.asarray(model.predict(elsewhere.rows), dtype=np.float64)[:, -1]
        return _judged(said, elsewhere, _cosine(_interventional(model, clinic, chosen), truth))

    rate = float(np.mean(elsewhere.labels))
    return {
        f"private statistics (ε = {EPSILON:g})": judged(artefact.model),
        f"a network by DP-SGD (ε = {EPSILON:g}), not calibrated": judged(_network(job, clinic)),
        "always the label rate": _judged(np.full(len(elsewhere), rate), elsewhere, None),
        "the true risk": judged(risk),
    }


def _judged(said: NDArray[np.float64], elsewhere: Dataset, cosine: float | None) -> JudgedModel:
    found = judge_classes(np.column_stack([1 - said, said]), elsewhere.labels)
    assert found.auc is not None
    return JudgedModel(found.auc.figure, found.log_loss.figure, cosine)


def _interventional(model: Model, clinic: ClinicFederation, rows: Rows) -> NDArray[np.float64]:
    explained = ExactShapley(model, clinic.reference, schema=clinic.schema)(rows)
    return explained.values[:, :, -1]


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.mean(cosine_similarity(first, second)))


def _network(job: Job, clinic: ClinicFederation) -> NetworkModel:
    """The network of FastSHAP++ with all of its noise, without books: its data are invented."""
    terms = {"pipeline": NETWORK, "rounds": 10, "secure": None, "server_key": None}
    plan = replace(job.agreement, **terms).plan  # type: ignore[arg-type]
    assert isinstance(plan, PipelinePlan)
    clients = [
        Client(each.name, len(each.records), each.records, plan.tasks, NoGuard(), SeededSources(0))
        for each in job.parties
    ]
    rounds = Rounds(
        Threads([Node(client) for client in clients], at_once=2), plan.facts.sizes, source=Seeded(0)
    )
    stage = next(each for each in plan.stages if each.name == BLACK_BOX)
    held_out = Unprotected(job.server.held_out, "invented")
    arrays = rounds.run(stage, plan.start(BLACK_BOX), given={}, unprotected=held_out).arrays
    objective: Any = plan.objectives[BLACK_BOX]
    return NetworkModel.from_arrays(clinic.schema, objective.output_head, arrays)


def _write_comparison(output: Path, judged: dict[str, JudgedModel]) -> None:
    folder = output / NOT_FOR_RELEASE
    folder.mkdir(exist_ok=True)
    content = {name: asdict(each) for name, each in judged.items()}
    replace_file(folder / COMPARISON, (json.dumps(content, indent=2) + "\n").encode())


# --- one patient ----------------------------------------------------------------------------------


def _one_patient(artefact: Artefact, output: Path, rows: Rows) -> tuple[Path, Path, Path]:
    """The patient with the highest risk, explained from the artefact alone, as anybody could."""
    model = artefact.additive
    assert model is not None
    patient = rows[[int(model.predict(rows)[:, -1].argmax())]]
    name = ExplainerName("Shapley values of log-odds over the released background", "closed-form")
    release = PostProcessed(ClosedForm(model), [artefact.origin], model.digest, name)
    write_example(artefact.schema, patient, output / PATIENTS)
    with open_vault(output, origin_of(artefact.name, SERVER), signing=None) as vault:
        service = ReleaseService(vault)
        explained = service.answer(release, patient, caller="explainer", subject=artefact.name)
        vault.publish()
        (receipt,) = service.receipts(explained)
        entry, policy = explained.entries[0], vault.policy
    found = verify_receipt(bytes(receipt), policy, query=entry.question, answer=entry.answer)
    if found.failed is not None:
        raise VerificationFailed(f"{found.failed.name}: {found.failed.detail}")
    saved = explained.explanation.save(output / _EXPLANATION)
    told = replace(explained, schema=artefact.schema, deviations=artefact.deviations)
    picture = draw(told, output / _PICTURE)
    return saved, picture, replace_file(saved.with_suffix(RECEIPT), bytes(receipt), mode=0o600)


def _check_logs(artefact: Artefact) -> int:
    """Check every log of the artefact offline; how many records they hold."""
    total = 0
    for party in artefact.settings["logs"]:
        failed = check_log(artefact, party).failed
        if failed is not None:
            raise VerificationFailed(f"the log of {party}: {failed.name}: {failed.detail}")
        total += (artefact.log_folder(party) / "records.jsonl").read_bytes().count(b"\n")
    assert SERVER in artefact.settings["logs"]
    return total
