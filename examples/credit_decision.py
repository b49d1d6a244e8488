"""A loan is refused, and the applicant is told why.

A bank trains a scoring model on the records of 20,000 customers, with differential privacy, and
pays for that from an account. From then on every explanation is post-processing: it costs nothing,
and carries the guarantee of training forward. The applicant gets a letter in plain words, a
receipt, and a way to check it without asking the bank.

The letter follows two rules of European law: Article 22 of the General Data Protection Regulation
(decisions by machines alone: a human being must be reachable, and the decision can be contested)
and Article 86 of the AI Act (clear and meaningful explanations of what part the system played, and
of the main elements of the decision). It is an illustration, not legal advice.

    python -m examples.credit_decision
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from voile import Explanation, plots
from voile.app.budget import open_budget
from voile.app.explain import NoisyAnswer, ReleasedExplanation, ReleaseService, Request
from voile.app.explain.files import write_receipts
from voile.attribution import ExactShapley
from voile.core.guarantee import (
    Adversary,
    Guarantee,
    Protected,
    ProtectedUnit,
    Relation,
    RowPart,
)
from voile.core.schema import Schema
from voile.models import Box, WrappedModel, wrap
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.records.audit_log import Policy, Report, explanation_bytes, verify_receipt
from voile.records.ledger import Opening, PublicInput, Question
from voile.records.vault import POLICY, open_vault
from voile.release import PUBLIC, Origin, PostProcessed, trained_privately

SCHEMA = Schema.loads("""
name = "loan applications v1"

[features.monthly_income]
kind = "continuous"
bounds = [0, 6000]

[features.monthly_instalments]
kind = "continuous"
bounds = [0, 3000]

[features.years_in_job]
kind = "continuous"
bounds = [0, 20]

[features.late_payments]
kind = "integer"
bounds = [0, 6]

[features.loan_amount]
kind = "continuous"
bounds = [500, 30000]

[features.existing_customer]
kind = "categorical"
categories = ["no", "yes"]
""")
WORDS = {
    "monthly_income": "your monthly income",
    "monthly_instalments": "what you already pay back each month",
    "years_in_job": "how long you have been in your job",
    "late_payments": "payments that were late in the past",
    "loan_amount": "the amount you asked for",
    "existing_customer": "whether you are a customer already",
}
CUSTOMERS, PENALTY = 20_000, 0.001
EPSILON, DELTA = 1.0, 1e-6
DATASET = "customers 2026"
PROTECTED = Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, DATASET)
APPLICANT = {
    "monthly_income": [1900.0],
    "monthly_instalments": [950.0],
    "years_in_job": [12.0],
    "late_payments": [3],
    "loan_amount": [18000.0],
    "existing_customer": ["yes"],
}


@dataclass(frozen=True)
class Story:
    """What came out of it."""

    explained: ReleasedExplanation
    letter: str
    checked: Report
    picture: Path


def main(folder: Path) -> Story:
    """The whole story; everything it writes goes into `folder`."""
    with open_vault(folder / "books", "example.org/bank") as vault:
        service = ReleaseService(vault)
        model, origin = train_privately(service)
        reference = public_reference()
        release = PostProcessed(
            ExactShapley(model, reference, schema=SCHEMA),
            [origin, PUBLIC],
            model=model.digest,
            name="exact Shapley values",
        )
        explained = service.answer(release, APPLICANT, caller="loan desk", purpose="refused loan")
        vault.publish()
        write_receipts(service, explained, folder / "receipt.tlog-proof")  # for its owner only
        (folder / POLICY).write_text(str(vault.policy), encoding="utf-8")
    explained.explanation.save(folder / "explanation.voile")
    checked = check_offline(folder)
    text = letter(explained.explanation)
    (folder / "letter.txt").write_text(text, encoding="utf-8")
    picture = folder / "explanation.png"
    plots.bar(explained.explanation).savefig(picture, dpi=150)
    return Story(explained, text, checked, picture)


# --- training with differential privacy -----------------------------------------------------------


def train_privately(service: ReleaseService) -> tuple[WrappedModel, Origin]:
    """Logistic regression with noise on its weights, paid for and on record.

    Why the noise suffices: with encoded rows of length at most 1, the loss of one customer pulls
    with a force of at most 1. The penalty makes the objective strongly convex with modulus PENALTY,
    so replacing one of n customers moves the minimiser by at most 2 / (n · PENALTY).
    """
    account = Opening(
        name="customers",
        protected=PROTECTED,
        epsilon=2.0,
        delta=1e-5,
    )
    vault = service.vault
    open_budget(vault.storage, vault.ledger, vault.log, account, caller="custodian")
    bound = Sensitivity(
        value=2 / (CUSTOMERS * PENALTY) * (1 + 1e-3),  # the solver stops a little before the end
        norm=Norm.L2,
        unit=PROTECTED.unit,
        relation=PROTECTED.relation,
        conditions=("encoded rows are at most 1 long", "the solver has converged"),
    )
    noise = GaussianMechanism.calibrated(
        bound, epsilon=EPSILON, delta=DELTA, shape=(weights_count(),)
    )
    promise = Guarantee(
        epsilon=EPSILON,
        delta=DELTA,
        protected=PROTECTED,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise on the weights of a logistic regression",
        composition="one training run",
        public_facts=(f"number of customers: {CUSTOMERS}", "schema", "penalty"),
        assumptions=bound.conditions,
    )
    question = Question(
        account="customers",
        model="logistic regression",
        explainer="training",
        level="model",
        parameters=f"penalty {PENALTY}",
        about=PublicInput(DATASET.encode()),
    )
    request = Request(
        question=question,
        event=noise.event(),
        guarantees=(promise,),
        subject="loan score v1",
        purpose="training",
        caller="custodian",
        part=RowPart.TRAINING,
    )
    answer = service.answer_request(
        request, lambda: NoisyAnswer(noise.randomise(fitted()).tobytes())
    )
    weights = np.frombuffer(answer.content)
    return as_model(weights), trained_privately(promise)


def fitted() -> NDArray[np.float64]:
    """The minimiser, before noise: it never leaves this process."""
    table, repaid = customers()
    rows, signs = columns(SCHEMA.rows(table)), 2 * repaid - 1

    def objective(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = signs * (rows @ weights)
        pull = -signs / (1 + np.exp(margin))
        loss = np.logaddexp(0, -margin).mean() + PENALTY / 2 * weights @ weights
        return float(loss), rows.T @ pull / len(rows) + PENALTY * weights

    start = np.zeros(weights_count())
    found: NDArray[np.float64] = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15}
    ).x
    return found


def columns(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Encoded columns around the middle and a constant, at most 1 long."""
    encoded = SCHEMA.encode(rows) - 0.5
    constant = np.full((len(rows), 1), 0.5)
    joined = np.hstack([encoded, constant])
    scaled: NDArray[np.float64] = joined / np.sqrt(0.25 * joined.shape[1])
    return scaled


def weights_count() -> int:
    return len(SCHEMA.column_names) + 1


def as_model(weights: NDArray[np.float64]) -> WrappedModel:
    def approved(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        score: NDArray[np.float64] = 1 / (1 + np.exp(-(columns(rows) @ weights)))
        return score

    return wrap(approved, outputs=Box(0, 1), output_names=("loan granted",))


def customers() -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Invented customers, and whether they paid back."""
    draw = np.random.default_rng(7)
    income = draw.gamma(4, 700, CUSTOMERS)
    table = {
        "monthly_income": income,
        "monthly_instalments": income * draw.uniform(0, 0.6, CUSTOMERS),
        "years_in_job": draw.gamma(1.5, 5, CUSTOMERS),
        "late_payments": draw.poisson(1.2, CUSTOMERS).astype(float),
        "loan_amount": draw.gamma(2, 6000, CUSTOMERS),
        "existing_customer": draw.choice(["no", "yes"], CUSTOMERS),
    }
    score = (
        0.0014 * (income - 1.5 * table["monthly_instalments"])
        - 1.1 * table["late_payments"]
        + 0.08 * table["years_in_job"]
        - 0.00008 * table["loan_amount"]
    )
    return table, (draw.random(CUSTOMERS) < 1 / (1 + np.exp(-score))).astype(float)


def public_reference() -> NDArray[np.float64]:
    """Typical applications that the bank made up and shows to anybody."""
    grid = np.random.default_rng(1).uniform(0.05, 0.6, (60, len(SCHEMA.features)))
    lower, upper = np.array([0, 0, 0, 0, 500, 0]), np.array([6000, 3000, 20, 6, 30000, 2])
    return SCHEMA.clamp(np.floor(lower + grid * (upper - lower)))


# --- what the applicant gets ----------------------------------------------------------------------


def letter(explanation: Explanation) -> str:
    """The main elements of the decision, in words, largest first."""
    values = explanation.values[0, :, 0]
    order = np.argsort(-np.abs(values))
    against = [n for n in order if values[n] < 0][:3]
    in_favour = [n for n in order if values[n] > 0][:2]

    def lines(chosen: list[int]) -> str:
        names = explanation.feature_names
        said = [f"  - {WORDS[names[n]]} ({values[n]:+.2f})" for n in chosen]
        return "\n".join(said or ["  - nothing of weight"])

    usual = explanation.base_values[0, 0]
    score = usual + values.sum()
    promise = explanation.guarantees[0]
    return f"""\
Your application for a loan

We have refused your application. A computer program took part in this decision: it gave your
application a score of {score:.2f} out of 1, and we grant loans from 0.50 on. The applications that
we compare with score {usual:.2f} on average. What moved yours away from that:

What counted against you:
{lines(against)}

What counted in your favour:
{lines(in_favour)}

Your rights. You may ask that a person looks at your application again, tell us what the figures
leave out, and contest the decision (General Data Protection Regulation, Article 22). You may ask us
which part the program played and what mattered most in the decision (AI Act, Article 86); this
letter is our answer.

Other people's data. The program learned from our customers' records, but what it can reveal about
any one of them is limited by a guarantee: epsilon {promise.epsilon:g}, delta {promise.delta:g}.

Proof. The file receipt.tlog-proof shows that this explanation is on record, unchanged, and which
guarantee it carries. You can check it without asking us:
  voile audit verify receipt.tlog-proof --answer explanation.voile
"""


def check_offline(folder: Path) -> Report:
    """As the applicant does it: from the files alone."""
    policy = Policy.parse((folder / POLICY).read_text(encoding="utf-8"))
    explanation = Explanation.load(folder / "explanation.voile")
    receipt = (folder / "receipt.tlog-proof").read_bytes()
    return verify_receipt(receipt, policy, answer=explanation_bytes(explanation))


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "credit-decision")
    story = main(where)
    print(story.letter)
    for step in story.checked.steps:
        print(f"{step.number:>2}  {step.outcome:<13}  {step.name}: {step.detail}")
    print(f"\n{where}: letter, explanation, picture, receipt and the bank's books")
