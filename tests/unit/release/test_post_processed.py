"""`PostProcessed`: free, unlimited, and no more than the artefacts promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contract.releases import MODEL, PEOPLE, SCHEMA, TRAINED
from voile.attribution import Evaluations, ExactShapley, KernelShapley
from voile.core.errors import Refused
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote
from voile.models import Box, wrap
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, clipped_mean
from voile.release import (
    PUBLIC,
    PostProcessed,
    Release,
    trained_on,
    trained_privately,
)


def released(*origins: Any, explainer: Any = None) -> PostProcessed:
    exact = explainer or ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)
    return PostProcessed(exact, origins, MODEL.digest, "exact")


def test_it_costs_nothing_however_many_rows() -> None:
    release: Release[Any] = released(TRAINED)
    assert release.cost(1) is release.cost(10**9) is None
    assert "costs nothing" in str(release.preview())
    assert release.guarantees(1) == release.guarantees(10**9) == TRAINED.guarantees


def test_values_are_those_of_the_explainer() -> None:
    plain = ExactShapley(MODEL, PEOPLE[:5], schema=SCHEMA)(PEOPLE)
    drawn = released(TRAINED).draw(PEOPLE)
    assert np.array_equal(drawn.values, plain.values)
    assert drawn.guarantees == TRAINED.guarantees
    assert KnownNote.ALL_PUBLIC not in drawn.notes


def test_public_artefacts_need_no_guarantee_and_say_why() -> None:
    drawn = released(PUBLIC).draw(PEOPLE[:1])
    assert drawn.guarantees == ()
    assert drawn.notes == (KnownNote.ALL_PUBLIC, KnownNote.NOT_CHARGED)


def test_sampling_errors_stay() -> None:
    explainer = KernelShapley(MODEL, PEOPLE[:20], effort=Evaluations(60), schema=SCHEMA)
    assert released(TRAINED, explainer=explainer).draw(PEOPLE[:2]).standard_errors is not None


def test_a_model_that_was_trained_without_privacy_is_refused_with_alternatives() -> None:
    with pytest.raises(Refused, match="train it with differential privacy"):
        released(TRAINED, trained_on("secret"))


def output_perturbed(rows: Any, labels: Any, epsilon: float) -> tuple[Any, Guarantee]:
    """A linear score from one noisy mean: the smallest model that is private by noise alone."""
    signed = np.where(labels > 0, 1.0, -1.0)[:, np.newaxis] * SCHEMA.encode(rows)
    length = np.linalg.norm(signed, axis=1, keepdims=True)
    short = signed / np.maximum(length, 1.0)
    sensitivity = clipped_mean(
        bound=1.0, rows=len(rows), norm=Norm.L2, relation=Relation.REPLACE_ONE
    )
    noise = GaussianMechanism.calibrated(
        sensitivity, epsilon=epsilon, delta=1e-5, shape=(signed.shape[1],)
    )
    weights = noise.randomise(short.mean(axis=0))
    promise = Guarantee(
        epsilon=epsilon,
        delta=1e-5,
        protected=Protected(ProtectedUnit.ROW, Relation.REPLACE_ONE, "patients 1"),
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise on a mean of clipped rows",
        composition="one release",
        assumptions=sensitivity.conditions,
    )
    return lambda given: 1 / (1 + np.exp(-4 * SCHEMA.encode(given) @ weights)), promise


def test_a_model_made_private_by_output_perturbation_is_explained_for_free() -> None:
    draw = np.random.default_rng(0)
    rows = np.column_stack(
        [draw.uniform(0, 100, 5000), draw.integers(0, 2, 5000), draw.integers(0, 11, 5000)]
    )
    labels = (rows[:, 0] > 50).astype(float)
    model, promise = output_perturbed(rows, labels, 1.0)
    wrapped = wrap(model, outputs=Box(0, 1), digest="perturbed")
    release = PostProcessed(
        ExactShapley(wrapped, SCHEMA.null_row[np.newaxis], schema=SCHEMA),
        [trained_privately(promise), PUBLIC],
        wrapped.digest,
        "exact",
    )
    drawn = release.draw(rows[:2000])
    assert drawn.guarantees == (promise,)
    effect = np.corrcoef(drawn.values[:, 0, 0], rows[:2000, 0])[0, 1]
    assert effect > 0.9
