"""Loaders: what comes with scikit-learn, and what is said when files are missing or others."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiments.lib.datasets import loaders
from experiments.lib.datasets.catalogue import SOURCES, Source
from experiments.lib.datasets.loaders import schema_of, scikit_learn

import voile.datasets as package
from voile.core.errors import InvalidInput, VerificationFailed
from voile.datasets import Dataset

TABLES = ("dutch_census", "acs_income", "acs_employment", "adult", "diabetes_130")
LOADERS = {
    **{name: name for name in TABLES},
    "movielens_100k": "movielens_100k",
    "movielens_1m": "movielens_1m",
    "amazon": "amazon_hin",
    "amazon_electronics": "amazon_electronics_head",
    "yelp": "yelp_hin",
    "mnist_by_writer": "mnist_by_writer",
    "cifar10": "cifar10",
}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_sets_of_scikit_learn_fit_their_schema_without_change(name: str) -> None:
    import sklearn.datasets

    found = scikit_learn(name)
    original = getattr(sklearn.datasets, f"load_{name}")()
    assert np.array_equal(found.rows, original.data)
    assert np.array_equal(found.labels, original.target)
    assert found.schema.check(found.schema.table(found.rows)).ok
    assert found.encoded.min() >= 0
    assert found.encoded.max() <= 1
    if name != "diabetes":
        assert found.label_names == tuple(str(n) for n in original.target_names)


def test_unknown_sets() -> None:
    with pytest.raises(InvalidInput, match="iris, wine"):
        scikit_learn("boston")
    with pytest.raises(InvalidInput, match="no schema"):
        schema_of("boston")
    with pytest.raises(InvalidInput, match="a number"):
        _ = scikit_learn("diabetes").label_names


@pytest.mark.parametrize("name", list(LOADERS))
def test_without_a_folder_the_error_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = SOURCES[LOADERS[name]]
    monkeypatch.delenv("VOILE_DATA", raising=False)
    with pytest.raises(InvalidInput, match="VOILE_DATA, which is not set") as error:
        getattr(loaders, name)()
    assert source.origin in str(error.value)
    monkeypatch.setenv("VOILE_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match="no such file") as error:
        getattr(loaders, name)()
    assert source.files[0][0] in str(error.value)


def test_another_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "adult"
    folder.mkdir()
    (folder / "adult.parquet").write_bytes(b"something else")
    monkeypatch.setenv("VOILE_DATA", str(tmp_path))
    with pytest.raises(VerificationFailed, match="expected SHA-256 f5ace3228a"):
        loaders.adult()


def stored(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, files: dict[str, bytes]
) -> None:
    """Files of ours in the place of the real ones, with their own checksums."""
    source = SOURCES[name]
    (folder / source.folder).mkdir(parents=True)
    digests = []
    for file, content in files.items():
        (folder / source.folder / file).write_bytes(content)
        digests.append((file, hashlib.sha256(content).hexdigest()))
    mine: dict[str, Source] = {**SOURCES, name: replace(source, files=tuple(digests))}
    monkeypatch.setattr(loaders, "SOURCES", mine)
    monkeypatch.setenv("VOILE_DATA", str(folder))


def parquet(columns: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_through_their_schema(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schema = schema_of(name)
    assert schema.label is not None
    raw = schema.table(np.tile(schema.null_row, (4, 1)))
    columns: dict[str, Any] = {key: list(column) for key, column in raw.items()}
    columns[schema.label.name] = [getattr(schema.label.domain, "values", (0,))[-1]] * 4
    further = {"STATE": "CA", "client": 1, "paper_client": 3, "patient_nbr": 7}
    columns |= {key: [value] * 4 for key, value in further.items()}
    columns["medical_specialty"] = [None, "Cardiology", None, None]
    stored(monkeypatch, tmp_path, name, {SOURCES[name].files[0][0]: parquet(columns)})
    found = getattr(loaders, name)()
    assert np.array_equal(found.rows, np.tile(schema.null_row, (4, 1)))
    assert (found.labels == len(found.label_names) - 1).all()
    assert found.frame().shape == (4, len(schema.features))


def test_ratings_have_a_schema_of_users_and_items(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {
        "ratings.parquet": parquet(
            {
                "user_id": [1, 2, 2],
                "item_id": [5, 5, 9],
                "rating": [4, 3, 5],
                "timestamp": [0, 1, 2],
            }
        ),
        "users.parquet": parquet({"user_id": [1, 2], "age": [30, 40]}),
        "items.parquet": parquet({"item_id": [5, 9], "title": ["a", "b"]}),
    }
    stored(monkeypatch, tmp_path, "movielens_100k", files)
    found = loaders.movielens_100k()
    assert found.schema.feature_names == ("user_id", "item_id")
    assert found.schema.labels(found.ratings).tolist() == [4.0, 3.0, 5.0]
    assert set(found.tables) == {"users", "items"}


def test_items_may_be_called_by_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = {"user_id": [1, 2], "item_id": ["B00", "A00"], "rating": [1.0, 5.0]}
    stored(
        monkeypatch,
        tmp_path,
        "amazon_electronics_head",
        {"ratings_head_50k.parquet": parquet(table)},
    )
    found = loaders.amazon_electronics()
    assert found.schema.rows(found.ratings)[:, 1].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("name", "shape"), [("mnist_by_writer", (4, 4)), ("cifar10", (4, 4, 3))])
def test_pictures_come_in_two_parts(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {
        "x_train": np.zeros((3, *shape), np.uint8),
        "y_train": np.array([0, 1, 1]),
        "writer_train": np.array([7, 7, 8]),
        "x_test": np.zeros((1, *shape), np.uint8),
        "y_test": np.array([1]),
        "class_names": np.array([str(k) for k in range(10)]),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    stored(monkeypatch, tmp_path, name, {SOURCES[name].files[0][0]: buffer.getvalue()})
    found = getattr(loaders, name)()
    assert set(found.train) == {"x", "y", "writer"}
    assert found.test["x"].shape == (1, *shape)
    assert len(found.schema.features) == np.prod(shape)
    assert found.schema.rows(
        dict(zip(found.schema.feature_names, found.train["x"].reshape(3, -1).T, strict=True))
    ).shape == (3, np.prod(shape))


def test_a_pickled_array_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, x_train=np.array([{"a": 1}], dtype=object))
    stored(monkeypatch, tmp_path, "cifar10", {"cifar10_12k_2k.npz": buffer.getvalue()})
    with pytest.raises(ValueError, match="allow_pickle"):
        loaders.cifar10()


def test_every_source_says_origin_licence_and_checksums() -> None:
    for source in SOURCES.values():
        assert source.origin
        assert source.licence
        assert source.made
        assert all(len(digest) == 64 for _, digest in source.files)
        assert len(source.checksum) == 64
    assert set(LOADERS.values()) == set(SOURCES)


def test_a_data_set_takes_and_splits() -> None:
    iris = scikit_learn("iris")
    first, second = iris.split(0.4, seed=1)
    assert (len(first), len(second)) == (60, 90)
    both = np.concatenate([first.rows, second.rows])
    assert np.array_equal(np.sort(both, axis=0), np.sort(iris.rows, axis=0))
    with pytest.raises(InvalidInput, match="leaves a part empty"):
        iris.split(0.0, seed=1)
    tagged = Dataset("iris", iris.schema, iris.rows, iris.labels, {"n": np.arange(150)})
    assert tagged.take(np.array([5, 7])).columns["n"].tolist() == [5, 7]
    with pytest.raises(InvalidInput, match="does not fit together"):
        Dataset("iris", iris.schema, iris.rows, iris.labels[:-1])


def test_exports_are_there() -> None:
    assert all(hasattr(package, name) for name in package.__all__)
