"""`voile demo`: the main job on invented hospitals whose truth is known.

Eight hospitals train a model of readmission and a surrogate together, with differential privacy for
each patient; nothing but private arrays leaves a hospital. Then one patient's explanation is made,
recorded and checked. Because the data are invented, the same is trained once more without privacy,
and both are compared with the truth: such twins go into a folder that is never published.
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
from voile.app.federate.status import STATUS as RUN_STATUS
from voile.app.output_check import files_of
from voile.app.public_example import EXAMPLE, write_example
from voile.app.report import check_log, write_report
from voile.attribution import ExactShapley
from voile.attribution.fastshap import exact_values
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, VerificationFailed
from voile.core.guarantee import Protected, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import Seeded
from voile.core.schema import Rows
from voile.datasets import ClinicFederation, clinic_federation
from voile.evaluation import cosine_similarity
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
from voile.federation.pipeline import name_arrays
from voile.federation.stored_text import file_stem
from voile.models import Box, Model, wrap
from voile.pipelines.network_task import CLIPPED_UNIT
from voile.pipelines.objectives import BLACK_BOX, SURROGATE, Imitate
from voile.pipelines.private_explainer import PrivateExplainer
from voile.pipelines.private_explainer.plan import PipelinePlan, StageSpending
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.records.audit_log import verify_receipt
from voile.records.vault import WORKSPACE, Place, open_vault
from voile.release import PostProcessed
from voile.training import TrainingPlan, with_arrays

NAME: Final = "clinic demo v1"
EPSILON: Final = 2.0
DELTA: Final = 1e-5
MARKER: Final = "voile-demo.txt"
PATIENTS: Final = "patients.csv"
_EXPLANATION: Final = "explanation.voile"
_PICTURE: Final = "explanation.png"
_ONE_PATIENT: Final = (_EXPLANATION, _PICTURE, str(Path(_EXPLANATION).with_suffix(RECEIPT)))
_FOLDERS: Final = (ARTEFACT, CHECKPOINTS, NODES, NOT_FOR_RELEASE)
_MARKED: Final = b"Made by `voile demo`, which replaces what it wrote here and keeps the rest.\n"
_REFERENCE_ROWS: Final = 50
_JUDGED_ROWS: Final = 40
_STABILITY_RUNS: Final = 3
_ELSEWHERE: Final = 2026
"""Seed of patients who were in none of the eight hospitals. It makes data, never noise."""


@dataclass(frozen=True)
class NetworkComparison:
    """A private figure beside that of its twin without privacy."""

    private: float
    twin: float


@dataclass(frozen=True)
class Demo:
    """What the demo made, and where it lies.

    Args:
        accuracy: on patients of no hospital.
        truth: cosine of the black box's interventional values to those of the true risk.
        surrogate: cosine of the surrogate's values to those of one without privacy; the twin is
            another one without privacy, so its figure is what can be reached at all.
        joint, basic: what was spent, by composition of the noise and by adding up.
        records: in all logs, each of which was checked.
        explanation, picture, receipt: of one patient.
    """

    folder: Path
    report: Path
    accuracy: NetworkComparison
    truth: NetworkComparison
    surrogate: NetworkComparison
    joint: StageSpending
    basic: StageSpending
    records: int
    clients: dict[str, int]
    explanation: Path
    picture: Path
    receipt: Path


def run(
    output: Path,
    *,
    rows_per_hospital: int = 5_000,
    distillation_steps: int = 500,
    rounds_seen: Progress | None = None,
    steps_seen: Callable[[int, int], None] | None = None,
    say: Say = lambda _: None,
) -> Demo:
    """Run the main job into a folder, and in place of what an earlier demo wrote there."""
    _clear(output)
    clinic = clinic_federation(rows_per_hospital, reference_rows=_REFERENCE_ROWS)
    elsewhere = clinic_federation(500, seed=_ELSEWHERE).together()
    job = _job(clinic, TableRecords.from_dataset(elsewhere), output, distillation_steps)
    done = federate(job, rounds_seen=rounds_seen, steps_seen=steps_seen, say=say)
    judged = elsewhere.rows[:: len(elsewhere) // _JUDGED_ROWS][:_JUDGED_ROWS]
    say("the same without privacy, to compare with: possible because these data are invented")
    plan = job.agreement.plan
    assert isinstance(plan, PipelinePlan)
    figures = _judge(job, clinic, PrivateExplainer(plan, done.results), judged)
    say("one patient's explanation, on record, with a receipt")
    explanation, picture, receipt = _one_patient(done.artefact, output, judged)
    records = _check_logs(done.artefact)
    _write_twins(output, figures)
    readings = plan.figures
    return Demo(
        folder=output,
        report=write_report(done.artefact),
        accuracy=figures["accuracy"],
        truth=figures["truth"],
        surrogate=figures["surrogate"],
        joint=readings.joint,
        basic=readings.published,
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


def _job(clinic: ClinicFederation, held_out: TableRecords, output: Path, steps: int) -> Job:
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
    )
    plan = TrainingPlan(steps=steps)
    server = ServerSide(output, held_out, clinic.reference, plan, stability_runs=_STABILITY_RUNS)
    return Job(agreement, server, parties)


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
    job: Job, clinic: ClinicFederation, trained: PrivateExplainer, rows: Rows
) -> dict[str, NetworkComparison]:
    truth = _interventional(wrap(clinic.risk, outputs=Box(0, 1)), clinic, rows)
    plan = trained.plan.twin()
    box = _twin_box(job, plan)
    accuracy = NetworkComparison(
        trained.results[BLACK_BOX].figures[-1]["accuracy"], _accuracy(box, job)
    )
    agreement = NetworkComparison(
        _cosine(_interventional(trained.black_box, clinic, rows), truth),
        _cosine(_interventional(box, clinic, rows), truth),
    )
    first, second = (_twin_surrogate(job, plan, trained, rows, seed) for seed in (0, 1))
    mine = exact_values(trained.surrogate, rows).values[:, :, -1]
    surrogate = NetworkComparison(_cosine(mine, first), _cosine(second, first))
    return {"accuracy": accuracy, "truth": agreement, "surrogate": surrogate}


def _interventional(model: Model, clinic: ClinicFederation, rows: Rows) -> NDArray[np.float64]:
    explained = ExactShapley(model, clinic.reference, schema=clinic.schema)(rows)
    return explained.values[:, :, -1]


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.mean(cosine_similarity(first, second)))


def _accuracy(model: Model, job: Job) -> float:
    held_out = job.server.held_out
    return float(np.mean(model.predict(held_out.rows).argmax(axis=1) == held_out.labels))


def _stage(job: Job, plan: PipelinePlan, stage: str, seed: int, given: dict[str, Any]) -> Any:
    """One stage without noise, and without books: for data nobody protects."""
    seeded = replace(plan, seed=seed)
    clients = [
        Client(
            each.name, len(each.records), each.records, seeded.tasks, NoGuard(), SeededSources(seed)
        )
        for each in job.parties
    ]
    transport = Threads([Node(client) for client in clients], at_once=2)
    rounds = Rounds(transport, plan.facts.sizes, source=Seeded(seed))
    chosen = next(each for each in seeded.stages if each.name == stage)
    held_out = Unprotected(job.server.held_out, "invented")
    return rounds.run(chosen, seeded.start(stage), given=given, unprotected=held_out).arrays


def _twin_box(job: Job, plan: PipelinePlan) -> NetworkModel:
    arrays = _stage(job, plan, BLACK_BOX, 0, {})
    objective: Any = plan.objectives[BLACK_BOX]
    return NetworkModel.from_arrays(job.agreement.schema, objective.output_head, arrays)


def _twin_surrogate(
    job: Job, plan: PipelinePlan, trained: PrivateExplainer, rows: Rows, seed: int
) -> NDArray[np.float64]:
    """Values of a surrogate without privacy, of the same private black box."""
    given = name_arrays(BLACK_BOX, trained.results[BLACK_BOX].arrays)
    arrays = _stage(job, plan, SURROGATE, seed, given)
    lesson = plan.objectives[SURROGATE]
    assert isinstance(lesson, Imitate)
    return exact_values(lesson.surrogate(with_arrays(arrays)), rows).values[:, :, -1]


def _write_twins(output: Path, figures: dict[str, NetworkComparison]) -> None:
    folder = output / NOT_FOR_RELEASE
    folder.mkdir(exist_ok=True)
    content = {name: asdict(figure) for name, figure in figures.items()}
    replace_file(folder / "twins.json", (json.dumps(content, indent=2) + "\n").encode())


# --- one patient ----------------------------------------------------------------------------------


def _one_patient(artefact: Artefact, output: Path, rows: Rows) -> tuple[Path, Path, Path]:
    """The patient with the highest risk, explained from the artefact alone, as anybody could."""
    model = artefact.model.only(artefact.model.output_names[-1])  # type: ignore[index]
    patient = rows[[int(model.predict(rows)[:, 0].argmax())]]
    explainer = ExactShapley(model, artefact.reference, schema=artefact.schema)
    name = "interventional Shapley values"
    release = PostProcessed(explainer, [artefact.origin], model.digest, name)
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
