"""A client's images as networks see them: fixed filters, chosen in public, and a layer to learn.

`ImageRecords` are the records of an image task. `LearnImages` is its objective: oriented edges,
averaged over cells and scaled to length one (as histograms of oriented gradients are), which
know no data, so that DP-SGD has but one small layer to learn. `image_classifier` makes a pipeline
of it. Convolutions of your own: `voile.training.private.fit_module_privately`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.input_file import damaged, read_text
from voile.core.toml_text import parse_toml
from voile.federation.arrays import Arrays
from voile.pipelines.objectives import TrainingBatches, alike
from voile.training import Array, Perceptron, Softmax, TargetLoss

_TINY: Final = 1e-6


@dataclass(frozen=True)
class ImageSchema:
    """What images look like; public.

    Args:
        name: a label.
        shape: channels, height, width.
        classes: what an image may be of.
    """

    name: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise InvalidInput(f"shape is channels, height and width, found {self.shape}")
        if len(set(self.classes)) != len(self.classes) or len(self.classes) < 2:
            raise InvalidInput(f"expected at least two different classes, found {self.classes}")

    @classmethod
    def load(cls, path: Path) -> ImageSchema:
        """From TOML: `name`, `shape` (channels, height, width) and `classes`."""
        with damaged(path):
            found = parse_toml(read_text(path))
            return cls(
                str(found["name"]), _sizes(found["shape"]), tuple(map(str, found["classes"]))
            )

    def dumps(self) -> str:
        """The inverse of `load`."""
        classes = ", ".join(json.dumps(each, ensure_ascii=False) for each in self.classes)
        name = json.dumps(self.name, ensure_ascii=False)
        return f"name = {name}\nshape = {list(self.shape)}\nclasses = [{classes}]\n"

    @property
    def digest(self) -> str:
        """SHA-256 (hex); part of agreements, so its form never changes."""
        facts = {"name": self.name, "shape": list(self.shape), "classes": list(self.classes)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _sizes(found: Any) -> tuple[int, int, int]:
    channels, height, width = map(int, found)
    return channels, height, width


@dataclass(frozen=True, eq=False)
class ImageRecords:
    """Images and labels of one client; what lies outside [0, 1] is clamped, nothing raises.

    An image with a NaN and a label that is no class are null: they add nothing in training.

    Args:
        schema: public.
        images: brightness from 0 to 1, shape (n, channels, height, width).
        labels: places in `schema.classes`, shape (n,).
    """

    schema: ImageSchema
    images: Array = field(repr=False)
    labels: NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        found = tuple(np.shape(self.images)[1:])
        if found != self.schema.shape or np.shape(self.labels) != (len(self.images),):
            raise InvalidInput(
                f"images of {self.schema.name!r} have the shape {self.schema.shape} and a label "
                f"each, found {found} and labels of the shape {np.shape(self.labels)}"
            )

    @classmethod
    def read(cls, schema: ImageSchema, path: Path) -> ImageRecords:
        """From a file of arrays (`numpy.savez`): `images` (n, channels, height, width), from 0 to 1
        or whole numbers up to 255, and `labels`, places in `schema.classes`.

        What stands in an image raises nothing; which arrays there are, and their shapes, is public.
        """
        with damaged(path), np.load(path, allow_pickle=False) as found:
            images, labels = found["images"], found["labels"]
            if images.dtype.kind not in "uif" or labels.dtype.kind not in "uif":
                raise ValueError("images and labels must be numbers")
        brightest = 255 if images.dtype.kind in "ui" else 1
        with np.errstate(all="ignore"):
            shown = images.astype(np.float32) / np.float32(brightest)
            # A NaN stays one; clamping anything else never makes one.
            return cls(schema, shown.clip(0, 1), labels)

    def only(self, places: NDArray[Any]) -> ImageRecords:
        """Some of the records."""
        return ImageRecords(self.schema, self.images[places], self.labels[places])

    def __len__(self) -> int:
        return len(self.images)

    def readable(self) -> ImageRecords:
        """Without null records: to measure on, where the number of images need not be kept."""
        kept = ~np.isnan(self.images).any(axis=(1, 2, 3)) & ~np.isnan(self.targets).any(axis=1)
        return ImageRecords(self.schema, self.images[kept], self.labels[kept])

    @cached_property
    def targets(self) -> Array:
        """Labels as a network's outputs, (n, classes); NaN where a label is no class."""
        classes = np.arange(len(self.schema.classes))
        wanted: Array = (np.asarray(self.labels)[:, np.newaxis] == classes).astype(np.float32)
        wanted[~wanted.any(axis=1)] = np.nan
        return wanted


@dataclass(frozen=True)
class EdgeFilters:
    """Edges in several directions, averaged over cells of the image, in vectors of length one.

    Every image is filtered by itself. A NaN stays one: such an image is a null record.

    Args:
        directions: of edges, evenly around the circle.
        cells: rows and columns of cells.
    """

    directions: int = 8
    cells: int = 5

    def width(self, shape: tuple[int, int, int]) -> int:
        return shape[0] * self.directions * self.cells**2

    @np.errstate(all="ignore")  # images are protected: whatever they hold, nothing is said
    def __call__(self, images: Array) -> Array:
        """From (n, channels, height, width) to (n, width)."""
        padded = np.pad(images.clip(0, 1), ((0, 0), (0, 0), (1, 1), (1, 1)))
        across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
        down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
        found = []
        for place in range(self.directions):
            angle = 2 * math.pi * place / self.directions
            edges = np.maximum(math.cos(angle) * across + math.sin(angle) * down, 0)
            found.append(self._cells(edges))
        flat = np.sqrt(np.concatenate(found, axis=1))
        lengths = np.linalg.norm(flat, axis=1, keepdims=True)
        vectors: Array = (flat / np.maximum(lengths, _TINY)).astype(np.float32)
        return vectors

    def _cells(self, edges: Array) -> Array:
        """Means over cells, (n, channels·cells²)."""
        rows, columns = (_averaging(size, self.cells) for size in edges.shape[2:])
        means: Array = np.matmul(rows, np.matmul(edges, columns.T)).reshape(len(edges), -1)
        return means


def _averaging(size: int, cells: int) -> Array:
    """Shape (cells, size): triangles around the middle of each cell, which overlap."""
    middles = (np.arange(cells) + 0.5) * size / cells
    apart = np.abs(np.arange(size) + 0.5 - middles[:, np.newaxis]) * cells / size
    found = np.maximum(1 - apart, 0)
    shares: Array = (found / found.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


@dataclass(frozen=True, eq=False)
class LearnImages:
    """From an image to its class: fixed filters, then whatever layers training has."""

    schema: ImageSchema
    filters: EdgeFilters = EdgeFilters()

    @property
    def width(self) -> int:
        return self.filters.width(self.schema.shape)

    @property
    def answers(self) -> int:
        return len(self.schema.classes)

    def batches(
        self,
        records: ImageRecords,
        given: Arrays,  # noqa: ARG002
        draw: np.random.Generator,  # noqa: ARG002
    ) -> TrainingBatches:
        given_and_wanted = (self.filters(records.images), records.targets)
        return TrainingBatches(given_and_wanted, None, TargetLoss(Softmax()))

    def evaluate(
        self,
        network: Perceptron,
        given: Arrays,  # noqa: ARG002
        records: ImageRecords,
    ) -> Mapping[str, float]:
        return alike(network(self.filters(records.images)), records.targets, "accuracy")
