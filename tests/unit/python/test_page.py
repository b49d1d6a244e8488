"""The page of Python, as it is written: eight snippets on made data, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import matplotlib
import pytest

import voile
from tests.support.eight_tasks import PAGE, prepared
from voile.core.errors import VerificationFailed

NUMBERED: Final = re.compile(r"^# (\d)  .*$", re.MULTILINE)
_, *_parts = NUMBERED.split(PAGE)
SNIPPETS: Final = dict(zip(map(int, _parts[::2]), _parts[1::2], strict=True))


class Page:
    """A notebook in which the page is typed."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {**prepared(), "voile": voile}

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def run(self, number: int, instead: tuple[str, str] = ("", "")) -> None:
        code = SNIPPETS[number].replace(*instead)
        exec(compile(code, f"snippet {number}", "exec"), self.names)

    def open(self, kind: str) -> None:
        """One of the two budgets of the page."""
        first, second = SNIPPETS[3].strip().splitlines()
        exec(second if kind == "in memory" else first, self.names)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    return Page()


def test_there_are_eight() -> None:
    assert list(SNIPPETS) == list(range(1, 9))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
def test_ordinary_attributions(page: Page) -> None:
    page.run(1)
    assert page["why"].shape == (20, 3)
    assert page["why"].feature_names == ["age", "sex", "income"]
    assert "no privacy guarantee" in repr(page["why"])


def test_a_schema_from_public_rows_says_what_it_tells(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    page.run(2)
    assert "from 30 rows that you call public" in "".join(capsys.readouterr())
    assert page["schema"].feature_names == ("age", "sex", "income")


@pytest.mark.parametrize("kind", ["kept", "in memory"])
def test_one_person_over_private_rows(
    page: Page, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page.run(2)
    page.open(kind)
    page.run(4)
    assert "ε = 0.1" in capsys.readouterr().out
    assert page["why"].guarantee.epsilon == pytest.approx(0.1, rel=1e-3)
    assert page["why"].shape == (1, 3)


def test_what_matters_in_a_population_is_charged(page: Page) -> None:
    page.run(2)
    page.open("in memory")
    left = page["budget"].remaining
    page.run(5)
    assert page["budget"].remaining != left


def test_it_is_refused_without_the_origin_of_the_model(page: Page) -> None:
    page.run(2)
    page.open("in memory")
    origin = re.search(r',\n\s*model_origin="trained-on:clinic 2025"', SNIPPETS[4])
    assert origin is not None
    with pytest.raises(voile.VoileError, match="model_origin"):
        page.run(4, (origin[0], ""))


def test_a_private_model_is_trained_once_and_explained_for_ever(page: Page) -> None:
    page.run(2)
    regressor = "voile.PrivateRegressor(schema=schema, target_range=(0, 1), epsilon=1, delta=1e-6)"
    with pytest.warns(UserWarning, match="budget"):
        page.run(
            6,
            (
                "voile.PrivateRegressor(...)",
                f"reg = {regressor}.fit(X, (X['age'] / 100).to_numpy())",
            ),
        )
    assert 0.99 < page["clf"].guarantee_.epsilon <= 1
    assert page["clf"].explain(page["X_new"]).guarantee == page["clf"].guarantee_
    assert 0 <= page["reg"].predict(page["X_new"])[0] <= 1


def test_several_parties(page: Page) -> None:
    page.run(2)
    with pytest.raises(voile.VoileError, match="declares no column 'readmitted'"):
        page.run(7)  # a label is declared, with the other columns or as its classes
    page.names["schema"] = page["labelled_schema"]
    page.run(7)
    assert page["run"].guarantee.epsilon == pytest.approx(2)
    assert Path("report.html").is_file()


def test_proof(page: Page) -> None:
    page.run(2)
    page.open("kept")
    page.run(4)
    page.run(8)
    Path("why.voile").write_bytes(page["why"].abs.explanation.to_bytes())
    with pytest.raises(VerificationFailed):
        page.run(8, ('why.save("why.voile"); why.receipt.save("why.tlog-proof")', ""))
