"""A release of a workspace states its method, and `open_workspace` explains by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.app.explain.examples import BACKGROUND, ROWS, SCHEMA, model
from tests.unit.app.workspace.examples import free_spec, started, write_files

from voile import open_workspace
from voile.app.workspace import start_workspace
from voile.attribution import Lime
from voile.core.errors import Refused


def test_a_workspace_explains_by_the_method_of_its_release(tmp_path: Path) -> None:
    spec = free_spec(write_files(tmp_path), method="lime")
    made = start_workspace(spec, None, name="why", folder=tmp_path)
    assert 'method = "lime"' in made.file.read_text()
    with open_workspace(tmp_path) as workspace:
        explained = workspace.explain("why", ROWS).explanation
    expected = Lime(model(), BACKGROUND, schema=SCHEMA)(ROWS)
    assert np.array_equal(explained.values, expected.values)


def test_a_method_without_a_bound_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    path = started(tmp_path).file
    text = path.read_text()
    path.write_text(
        text.replace('protect = "background"', 'protect = "background"\nmethod = "lime"')
    )
    assert path.read_text() != text
    with pytest.raises(Refused, match="nothing bounds"):
        open_workspace(tmp_path)
