"""`pipeline = "images"`: a classifier of images, from files of arrays to an artefact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html

from voile.app.artefact import Artefact, load_artefact
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.app.federate.starting import (
    NewParty,
    Settings,
    start_federation,
    write_federation,
)
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.pipelines.images import ImageRecords, ImageSchema

SCHEMA = ImageSchema("stripes", (1, 8, 8), ("lying", "standing"))
PARTIES = {"north": 120, "south": 90}


def stripes(count: int, seed: int) -> dict[str, Any]:
    """Lying or standing stripes, as whole numbers from 0 to 255."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    waves = 128 + 100 * np.sin(np.arange(8) * 2.1 + draw.uniform(0, 6, (count, 1)))
    flat = np.repeat(waves[:, np.newaxis, :], 8, axis=1)
    shown = np.where(labels[:, np.newaxis, np.newaxis] == 1, flat, flat.transpose(0, 2, 1))
    return {"images": shown[:, np.newaxis].astype(np.uint8), "labels": labels}


def write_images(folder: Path) -> Path:
    (folder / "images.toml").write_text(SCHEMA.dumps())
    for place, (name, count) in enumerate({**PARTIES, "open": 80}.items()):
        np.savez(folder / f"{name}.npz", **stripes(count, place))
    founders = [NewParty(name, folder / f"{name}.npz", rows) for name, rows in PARTIES.items()]
    settings = Settings(
        epsilon=8.0,
        delta=1e-4,
        training={"rounds": 3},
        held_out=(("open", folder / "open.npz"),),
    )
    config = write_federation(folder, "stripes 1", folder / "images.toml", founders, settings)
    config.write_text(config.read_text().replace("private explainer", "images", 1))
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_images(tmp_path_factory.mktemp("images")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_it_leaves_a_classifier_that_has_learned_something(job: Job, artefact: Artefact) -> None:
    again = load_artefact(artefact.folder).image_model
    assert again is not None
    new = ImageRecords(SCHEMA, *_arrays(stripes(200, 9)))
    said = again.predict(new.images)
    np.testing.assert_allclose(said.sum(axis=1), 1, rtol=1e-5)
    assert (said.argmax(axis=1) == new.labels).mean() > 0.8
    found = artefact.figures["quality"]["black box"]["figures"]["accuracy"]
    assert found["figure"] > found["baseline"]
    assert job.agreement.schema == SCHEMA


def _arrays(made: dict[str, Any]) -> tuple[Any, Any]:
    return (made["images"] / 255).astype(np.float32), made["labels"]


def test_what_is_promised_was_charged_and_is_on_record(job: Job, artefact: Artefact) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee == job.agreement.plan.guarantee()
    assert guarantee.epsilon <= job.agreement.epsilon
    assert all(check_log(artefact, name).failed is None for name in ("server", *PARTIES))
    assert "accuracy of the image classifier" in report_html(artefact)
    with pytest.raises(Refused, match="classifies images"):
        _ = artefact.model


def test_what_it_will_be_like_is_said(job: Job) -> None:
    told = str(preview(job.agreement, job.server))
    assert "for each unit of signal" in told
    assert "80 images that nobody protects" in told


def test_what_stands_in_an_image_raises_nothing(tmp_path: Path) -> None:
    images = np.full((4, 1, 8, 8), 0.5)
    images[1, 0, 2, 2], images[2], images[3, 0, 0, 0] = np.nan, np.inf, -1e300
    np.savez(tmp_path / "odd.npz", images=images, labels=np.array([0, 1, 7, np.nan]))
    read = ImageRecords.read(SCHEMA, tmp_path / "odd.npz")
    assert len(read) == 4
    assert len(read.readable()) == 1
    assert np.nanmax(read.images) == 1
    assert np.nanmin(read.images) == 0


@pytest.mark.parametrize(
    "arrays",
    [
        {"images": np.zeros((2, 1, 8, 8))},
        {"images": np.array(["a"]), "labels": np.zeros(1)},
        {"images": np.array([{}], dtype=object), "labels": np.zeros(1)},
    ],
)
def test_a_file_that_holds_no_images_is_named(tmp_path: Path, arrays: dict[str, Any]) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(UnreadableFile, match=r"wrong\.npz"):
        ImageRecords.read(SCHEMA, tmp_path / "wrong.npz")


def test_other_images_than_agreed_and_a_missing_held_out_file_are_refused(tmp_path: Path) -> None:
    config = write_images(tmp_path)
    np.savez(tmp_path / "north.npz", images=np.zeros((120, 1, 9, 9)), labels=np.zeros(120))
    with pytest.raises(InvalidInput, match="have the shape"):
        read_job(config)
    server = tmp_path / "server.toml"
    server.write_text(server.read_text().split("[[held_out]]")[0])
    with pytest.raises(InvalidInput, match="judged on images that nobody protects"):
        read_job(config)


def test_a_schema_of_images_comes_back(tmp_path: Path) -> None:
    (tmp_path / "images.toml").write_text(SCHEMA.dumps())
    assert ImageSchema.load(tmp_path / "images.toml") == SCHEMA
    (tmp_path / "images.toml").write_text("name = 3\n")
    with pytest.raises(UnreadableFile):
        ImageSchema.load(tmp_path / "images.toml")


def test_a_federation_of_images_starts_from_their_files(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.npz" for name in PARTIES]
    for place, (file, count) in enumerate(zip(files, PARTIES.values(), strict=True)):
        np.savez(file, **stripes(count, place))
    started = start_federation(files, tmp_path / "study", name="stripes 1")
    assert started.columns == ("images", "labels")
    assert started.config.is_file()
    (tmp_path / "cut.npz").write_bytes(files[0].read_bytes()[:100])
    with pytest.raises(UnreadableFile, match=r"cut\.npz"):
        start_federation([tmp_path / "cut.npz"], tmp_path / "other", name="other")
