"""What `voile train` wrote, held in memory: it can be passed around, pickled and saved again."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from voile.app.trained_folder import (
    FILES,
    FOLDER,
    MANIFEST,
    TrainedFolder,
    check_guarantee,
    paid_for,
)
from voile.app.trained_model import load_trained_model
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.input_file import read_file

_NAME: Final = "model"


@dataclass(frozen=True, eq=False)
class ModelCopy:
    """The files of a trained model; all of them may be shown.

    Args:
        files: content by name.
    """

    files: dict[str, bytes] = field(repr=False)

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Of a finished one; `VerificationFailed` if a file is not what the manifest says."""
        trained = load_trained_model(folder)
        check_guarantee(trained)
        names = (*FILES[trained.kind], MANIFEST)
        return cls({name: read_file(folder / name) for name in names})

    @cached_property
    def trained(self) -> TrainedFolder:
        """The model itself."""
        return load_trained_model(self.folder)

    @cached_property
    def folder(self) -> Path:
        """Where its files lie while this object lives."""
        home = TemporaryDirectory(prefix="voile-model-")
        weakref.finalize(self, home.cleanup)
        place = Path(home.name) / _NAME
        place.mkdir()
        for name, content in self.files.items():
            (place / name).write_bytes(content)
        return place

    def save(self, folder: Path, *, overwrite: bool = False) -> Path:
        """Write the files; another model that lies there is kept unless somebody says so."""
        FOLDER.check_place(folder)
        there, own = paid_for(folder), paid_for(self.folder)
        if there is not None and there != own and not overwrite:
            raise InvalidInput(
                f"{folder}: holds another model, of {there[0]!r}. Existing models are kept unless "
                "you pass overwrite=True"
            )
        FOLDER.begin(folder, () if there == own else FOLDER.files[1:])
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self.files, key=MANIFEST.__eq__):  # the manifest comes last
            replace_file(folder / name, self.files[name])
        return folder

    def __getstate__(self) -> dict[str, Any]:
        """Another process writes its own folder."""
        return {"files": self.files}
