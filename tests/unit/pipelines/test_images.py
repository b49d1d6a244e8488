"""Images as records of a federation: fixed filters, null records, a task that learns."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.federation.toys import rounds_over
from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.federation import Client, CountingGuard, Instruction, SeededSources, Stage, Unprotected
from voile.pipelines.images import EdgeFilters, ImageRecords, ImageSchema, LearnImages
from voile.pipelines.network_task import NetworkTask, Training

SCHEMA = ImageSchema("stripes", (1, 12, 12), ("across", "down"))
TRAINING = Training(hidden=(), clipping_norm=1.0, sampling_rate=0.5, epochs=5, rate=0.2)
TASK = NetworkTask(LearnImages(SCHEMA), TRAINING, noise_multiplier=1.0)


def stripes(seed: int, count: int = 60) -> ImageRecords:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    lines = (np.arange(12) + draw.integers(0, 4, (count, 1))) // 2 % 2
    images = np.where(labels[:, None, None], lines[:, :, None], lines[:, None, :])
    noisy = images + draw.normal(0, 0.2, (count, 12, 12))
    return ImageRecords(SCHEMA, noisy[:, None].astype(np.float32), labels)


def test_every_image_is_filtered_by_itself_to_length_one() -> None:
    filters, images = EdgeFilters(directions=4, cells=3), stripes(0).images
    found = filters(images)
    assert found.shape == (60, filters.width(SCHEMA.shape)) == (60, 36)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    for place in (0, 7):
        np.testing.assert_allclose(filters(images[place : place + 1])[0], found[place], rtol=1e-5)
    assert not filters(np.full((1, 1, 12, 12), 0.0, dtype=np.float32)).any()


def test_edges_are_told_apart_by_their_direction() -> None:
    filters = EdgeFilters(directions=4, cells=1)
    step = np.zeros((1, 1, 12, 12), dtype=np.float32)
    step[..., 4:8] = 1  # brighter to the right at one end, darker at the other
    found = filters(step)[0]
    assert found[0] > 0.5
    assert found[2] > 0.5
    turned = filters(step.swapaxes(2, 3))[0]
    np.testing.assert_allclose(turned, found[[1, 0, 3, 2]], atol=1e-6)


def test_null_records_add_nothing_and_nothing_raises() -> None:
    data = stripes(1)
    images, labels = data.images.copy(), data.labels.astype(float)
    images[3, 0, 5, 5] = np.nan
    labels[4], labels[5] = 7, np.nan
    spoilt = ImageRecords(SCHEMA, images, labels)
    assert len(spoilt.readable()) == len(data) - 3
    sent = Instruction("stripes", 1, TASK.start(0), {})
    first = TASK.fit(sent, spoilt, len(data), Seeded(0)).change
    images[3], images[4], images[5] = np.nan, np.inf, -1e9
    second = TASK.fit(sent, ImageRecords(SCHEMA, images, labels), len(data), Seeded(0)).change
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_federation_learns_from_images() -> None:
    clients = [
        Client(
            name=f"client {i}",
            size=60,
            records=stripes(i),
            tasks={"stripes": TASK},
            guard=CountingGuard(cap=2),
            sources=SeededSources(3),
        )
        for i in range(3)
    ]
    stage = Stage("stripes", TASK, rounds=2, clients_per_round=3, participations=2)
    found = rounds_over(clients).run(
        stage, TASK.start(0), given={}, unprotected=Unprotected(stripes(9), "generated")
    )
    assert found.figures[-1]["accuracy"] > 0.9
    assert all(row.outcome.counts for row in found.rows)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="have the shape"):
        ImageRecords(SCHEMA, np.zeros((2, 1, 5, 5), dtype=np.float32), np.zeros(2))
    with pytest.raises(InvalidInput, match="channels, height and width"):
        ImageSchema("flat", (12, 12), ("a", "b"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="different classes"):
        ImageSchema("one", (1, 2, 2), ("a", "a"))
    with pytest.raises(InvalidInput, match="ImageRecords to look at"):
        TASK.evaluate(TASK.start(0), {}, Unprotected([1], "nothing"))
