"""Protected explanations in Python: price first, then pay; and nothing protected is told."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import voile
from tests.unit.python.people import SCHEMA, people, pipeline, quick
from voile import Budget
from voile.app import open_records
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VoileError
from voile.python.protected import ProtectedExplainer
from voile.python.protected.prices import UnstatedPrice

PRIVATE, NEW = people(150), people(1, seed=5)
MODEL, PIPELINE = quick(), pipeline()
TERMS: dict[str, Any] = {"epsilon": 3, "delta": 1e-6}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    open_records.close_all()


def explainer(rows: Any = PRIVATE, **changes: Any) -> Any:
    stated: dict[str, Any] = {
        "model": MODEL,
        "protect": "background",
        "schema": SCHEMA,
        "model_origin": "trained-on:clinic 2025",
        **changes,
    }
    if "budget" not in stated:
        stated["budget"] = Budget("clinic 2026", **TERMS)
    return voile.Explainer(stated.pop("model"), rows, **stated)


# --- price, then pay ------------------------------------------------------------------------------


def test_price_first_then_pay() -> None:
    budget = Budget("clinic 2026", **TERMS)
    found = explainer(budget=budget, model=PIPELINE)
    price = found.preview(NEW, epsilon=0.1)
    assert (price.cost, price.fits, price.answered_before) == (0.1, True, False)
    assert budget.spent == 0
    why = found(NEW, epsilon=0.1)
    assert budget.spent == pytest.approx(price.share)
    assert why.guarantee.epsilon == 0.1
    assert why.guarantee.protected == budget.protected
    assert why.feature_names == ["age", "sex", "income"]
    assert why.output_names == "yes"
    assert why.display_data.tolist() == NEW.to_numpy().tolist()
    assert float(np.asarray(why.upper_bounds - why.values)[0, 0]) == pytest.approx(price.half_width)


def test_the_noise_goes_as_the_budget_grows() -> None:
    """Nothing but noise is between this and the exact values over the same rows."""
    schema = voile.Schema({"x": (0, 1), "y": (0, 1)})
    rows = {"x": [0.0] * 500, "y": [0.5] * 500}
    found = explainer(
        rows,
        model=lambda table: table["x"] * 0.6 + table["y"] * 0.4,
        schema=schema,
        output_range=(0, 1),
        budget=Budget("rich", epsilon=10, delta=1e-6),
    )
    why = found({"x": 1.0, "y": 0.0}, epsilon=9)
    assert np.asarray(why.values).ravel() == pytest.approx([0.6, -0.2], abs=0.03)


@pytest.mark.parametrize("stated", [{"epsilon": 0.1}, {"noise": 0.2}])
def test_the_same_question_is_charged_once(stated: dict[str, Any]) -> None:
    """Also by a cell that runs again, with a pipeline that was fitted again."""
    budget = Budget("clinic 2026", **TERMS)
    first = explainer(model=PIPELINE)(NEW, **stated)
    spent = budget.spent
    again = explainer(model=pipeline(), budget=Budget("clinic 2026", **TERMS))
    assert again.preview(NEW, **stated).answered_before
    assert "free" in str(again.preview(NEW, **stated))
    assert again(NEW.copy(), **stated) == first
    assert budget.spent == spent
    other = again(NEW, **stated, redraw=True)
    assert other != first
    assert budget.spent > spent


def test_without_a_price_the_error_is_the_price_list() -> None:
    budget = Budget("clinic 2026", **TERMS)
    for ask in (explainer(), explainer().preview):
        with pytest.raises(UnstatedPrice) as raised:
            ask(NEW)
        said = str(raised.value)
        assert "nothing was charged" in said
        assert [price.epsilon for price in raised.value.prices.prices] == [0.1, 0.3, 1.0]
        for price in raised.value.prices.prices:
            assert f"± {price.half_width:.2g}" in said
            assert f"{price.share:.1%}" in said
    assert budget.spent == 0
    assert isinstance(raised.value, Refused)


def test_a_price_may_stand_in_the_explainer() -> None:
    found = explainer(epsilon=0.2)
    assert found(NEW).guarantee.epsilon == 0.2
    assert found(NEW, epsilon=0.3).guarantee.epsilon == 0.3
    assert found.preview(NEW, noise=0.5).cost < 0.2


def test_a_price_is_of_all_rows_together() -> None:
    """Fifty rows for 0.1 cost 0.1, not 0.1 each; each gets more noise for it."""
    found, many = explainer(), people(50, seed=6)
    one, all_rows = found.preview(NEW, epsilon=0.1), found.preview(many, epsilon=0.1)
    assert all_rows.cost == pytest.approx(0.1, rel=1e-3)
    assert all_rows.cost <= 0.1
    assert all_rows.share == pytest.approx(one.share, rel=0.01)
    assert all_rows.half_width == pytest.approx(one.half_width * np.sqrt(50), rel=0.05)
    said = str(all_rows)
    assert "50 rows together: ε = 0.1," in said
    assert "mostly noise" in said
    assert "each explained row" not in said
    assert found(many, epsilon=0.1).guarantee.epsilon <= 0.1


def test_what_the_budget_does_not_cover_is_refused() -> None:
    budget = Budget("clinic 2026", **TERMS)
    found = explainer(budget=budget)
    found(NEW, epsilon=2.9)
    spent = budget.spent
    other = people(1, seed=8)
    price = found.preview(other, epsilon=2.9)
    assert not price.fits
    assert "does not cover it" in str(price)
    assert "does not fit" in str(found.prices(other))
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        found(other, epsilon=2.9)
    assert budget.spent == spent
    assert found(NEW, epsilon=2.9) is not None


def test_a_crash_while_it_is_computed_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, found = Budget("clinic 2026", **TERMS), explainer()
    from voile.release import PrivateBackgroundShapley

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PrivateBackgroundShapley, "draw", crash)
        with pytest.raises(KeyboardInterrupt):
            found(NEW, epsilon=0.1)
    assert budget.spent == 0
    assert found(NEW, epsilon=0.1).guarantee.epsilon == 0.1


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_origin": None}, "model_origin: say what .* the promise about background rows"),
        ({"model_origin": "trained-on:clinic 2026"}, "trained without differential privacy"),
        ({"model_origin": "nobody knows"}, "expected 'public', 'trained-on:LABEL'"),
        ({"budget": None}, r"budget: say which budget; it pays: budget=voile.Budget"),
        ({"budget": "clinic 2026"}, "budget: expected a voile.Budget, found a str"),
        ({"schema": None}, r"schema: say which values .* schema=voile.Schema"),
        ({"schema": {"age": (0, 1)}}, "outside the schema 'table': row 1, column 'age'"),
        (
            {"schema": voile.Schema({"age": (0, 1)}), "model": PIPELINE},
            "the schema lacks the columns 'sex', 'income'",
        ),
        ({"protect": "everybody"}, "protect must be one of 'background', 'population'"),
        ({"model": lambda table: table["age"]}, r"output_range: .*output_range=\(smallest"),
        ({"epsilom": 1}, "epsilom: there is no such field"),
        ({"rows": None}, "background: pass the protected rows"),
        ({"background_rows": 0}, "background_rows: expected a number of rows, or None"),
    ],
)
def test_what_is_missing_or_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    budget = Budget("clinic 2026", **TERMS)
    with pytest.raises(VoileError, match=message):
        explainer(**changes)(NEW, epsilon=0.1)
    assert budget.spent == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"epsilon": -1}, "epsilon: expected a number above 0, found -1"),
        ({"epsilon": "much"}, "epsilon: expected a number above 0, found 'much'"),
        ({"epsilon": 0.1, "noise": 0.1}, "state epsilon or noise, not both"),
        ({"noise": float("nan")}, "noise: expected a number above 0"),
    ],
)
def test_prices_are_numbers(ask: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        explainer()(NEW, **ask)


def test_the_protected_rows_cannot_be_explained_over_themselves() -> None:
    with pytest.raises(Refused, match="these rows are the protected background"):
        explainer()(PRIVATE, epsilon=0.1)


def test_public_rows_are_checked_and_told() -> None:
    with pytest.raises(InvalidInput, match=r"row 1, column 'sex': 'x' \(unknown category\)"):
        explainer()(NEW.assign(sex="x"), epsilon=0.1)
    with pytest.raises(InvalidInput, match="'sex'"):
        explainer()(NEW.drop(columns="sex"), epsilon=0.1)


def test_a_large_background_is_not_thinned_without_a_word(capsys: Any) -> None:
    with pytest.raises(InvalidInput, match=r"has 1,200 rows.*background_rows=1000"):
        explainer(people(1_200))
    some = explainer(people(1_200), background_rows=1000)
    everybody = explainer(people(1_200), background_rows=None)
    assert "1000 background rows" in some(NEW, epsilon=0.1).guarantee.mechanism
    assert "1200 background rows" in everybody(NEW, epsilon=0.2).guarantee.mechanism
    capsys.readouterr()


def test_a_background_that_is_not_protected_must_be_said_to_be_public() -> None:
    for protect in ("population", "training"):
        with pytest.raises(InvalidInput, match='background_origin="public"'):
            explainer(protect=protect)


def test_explained_records_need_a_budget_of_their_own() -> None:
    with pytest.raises(Refused, match=r"unit 'explained row'.*Budget\(..., unit='explained row'\)"):
        explainer(protect="explained", background_origin="public")
    people_budget = Budget("callers", **TERMS, unit="explained row")
    with pytest.raises(Refused, match="unit 'row'"):
        explainer(budget=people_budget)


# --- protected rows are not told of ---------------------------------------------------------------


class Hostile:
    """A cell that does the worst whenever it is looked at."""

    def _fail(self, *_: Any) -> Any:
        raise SystemExit("hush-hush")

    __float__ = __array__ = __eq__ = __len__ = __iter__ = __bool__ = __str__ = __repr__ = _fail
    __hash__ = object.__hash__


def spoilt(rows: int = 150) -> Any:
    """Missing, infinite, unlisted, and worse."""
    table = people(rows).astype(object)
    worst = [
        None,
        np.nan,
        np.inf,
        -np.inf,
        "hush-hush",
        Hostile(),
        [1, 2],
        {"hush-hush": 1},
        b"\xff",
    ]
    for row, cell in enumerate(worst):
        for column in table:
            table.iat[row, list(table).index(column)] = cell
    return table


@pytest.mark.filterwarnings("error")
def test_protected_rows_raise_nothing_and_warn_of_nothing(capsys: Any) -> None:
    why = explainer(spoilt())(NEW, epsilon=0.5)
    assert np.isfinite(why.values).all()
    assert "hush-hush" not in str(why) + capsys.readouterr().err
    assert why.released is not None


def test_a_spoilt_row_is_priced_and_counted_like_any_other() -> None:
    sound, broken = explainer(), explainer(spoilt())
    assert str(sound.preview(NEW, epsilon=0.1)) == str(broken.preview(NEW, epsilon=0.1))


def test_a_model_that_fails_for_a_protected_row_is_not_heard() -> None:
    """The model fails for one value that the schema allows, and probes do not hold."""
    schema = voile.Schema({"x": (0, 10)})

    def model(table: Any) -> Any:
        if (np.asarray(table["x"]) == 3.3).any():
            raise RuntimeError("the hush-hush value is there")
        return np.asarray(table["x"]) / 10

    rows = {"x": [1.0] * 99 + [3.3]}
    found = explainer(rows, model=model, schema=schema, output_range=(0, 1))
    assert found({"x": 5.0}, epsilon=1).shape == (1, 1)


def test_a_model_that_fails_for_public_values_is_told_before_anybody_pays() -> None:
    schema = voile.Schema({**{"age": (18, 100), "income": (0, 500_000)}, "sex": ["f", "m", "x"]})
    with pytest.raises(InvalidInput, match=r"model: .*'x'"):
        explainer(schema=schema, model=PIPELINE)


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.table, lambda t: t.to_dict("list")])
def test_tables_of_every_kind_are_one_question(kind: Any) -> None:
    """Columns in another order, too."""
    first = explainer(model=PIPELINE)(NEW, epsilon=0.1)
    turned = PRIVATE[["income", "sex", "age"]]
    assert explainer(kind(turned), model=PIPELINE)(kind(NEW), epsilon=0.1) == first


def test_wrong_columns_of_protected_rows_are_public() -> None:
    with pytest.raises(InvalidInput, match=r"the background lacks the column 'sex' \(is it 'Sex'"):
        explainer(PRIVATE.rename(columns={"sex": "Sex"}))
    with pytest.raises(InvalidInput, match="different lengths"):
        explainer({"age": [1, 2], "sex": ["f"], "income": [1, 2]})


# --- other rows that are protected ----------------------------------------------------------------


def test_importance_over_a_protected_population() -> None:
    budget = Budget("clinic 2026", **TERMS)
    stated: dict[str, Any] = {"schema": SCHEMA, "budget": budget, "model_origin": "public"}
    public = people(30, seed=7)
    with pytest.raises(UnstatedPrice, match="importance over 150 protected rows"):
        voile.importance(MODEL, PRIVATE, background=public, **stated)
    found: Any = voile.importance(MODEL, PRIVATE, background=public, epsilon=0.5, **stated)
    assert (found.guarantee.epsilon, found.shape) == (0.5, (3,))
    assert found.data is None
    spent = budget.spent
    again = voile.importance(MODEL, PRIVATE, background=public, epsilon=0.5, **stated)
    assert again == found
    over_itself = voile.importance(MODEL, spoilt(), noise=0.05, **stated)
    assert budget.spent > spent
    assert np.isfinite(over_itself.values).all()


def test_names_of_the_strongest_features_have_no_half_width() -> None:
    stated: dict[str, Any] = {"schema": SCHEMA, "model_origin": "public", "top": 2}
    stated |= {"budget": Budget("clinic 2026", **TERMS), "background": people(30, seed=7)}
    with pytest.raises(UnstatedPrice, match="accuracy"):
        voile.importance(MODEL, PRIVATE, **stated)
    found = voile.importance(MODEL, PRIVATE, epsilon=0.5, **stated)
    assert np.count_nonzero(found.values) == 2


def test_each_explained_record_pays_for_itself() -> None:
    budget = Budget("callers", epsilon=10, delta=1e-6, unit="explained row")
    found = explainer(
        people(30, seed=7), protect="explained", background_origin="public", budget=budget,
        id_column="id",
    )  # fmt: skip
    rows = people(2, seed=3).assign(id=["ada", "bob"])
    assert "for each record" in str(found.preview(rows, epsilon=2))
    why = found(rows, epsilon=2)
    assert len(why.released.entries) == 2
    assert why.data is why.display_data is None
    assert found(rows, epsilon=2) == why
    assert [path.name for path in sorted(why.receipt.save("why.tlog-proof").iterdir())] == [
        *("1.tlog-proof", "1.voile", "2.tlog-proof", "2.voile"),
    ]


def test_a_named_model_brings_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "scoring_by_age.py").write_text(
        "import numpy as np\n\ndef risk(rows):\n    return rows[:, 0] / 100\n"
    )
    found = ProtectedExplainer(
        "scoring_by_age:risk",
        PRIVATE,
        protect="background",
        schema=SCHEMA,
        budget=Budget("clinic 2026", **TERMS),
        model_origin="public",
        output_range=(0, 1),
    )
    assert found(NEW, epsilon=0.5).shape == (1, 3)


def test_what_is_shown(capsys: Any) -> None:
    found = explainer()
    assert repr(found) == (
        "Explainer of <WrappedModel in memory>, protects background rows, paid by 'clinic 2026'"
    )
    assert "<pre" in found.preview(NEW, epsilon=0.1)._repr_html_()
    seen: list[tuple[int, int]] = []
    watched = explainer(
        people(200, seed=4), progress=lambda done, total: seen.append((done, total))
    )
    for seed in (1, 2):
        watched(people(2, seed=seed), epsilon=0.1)
        assert seen[-1] == (2, 2)
    capsys.readouterr()


def test_frames_keep_their_index() -> None:
    rows = NEW.set_axis(["ada"])
    assert isinstance(rows, pd.DataFrame)
    assert explainer()(rows, epsilon=0.1).shape == (1, 3)


def test_the_price_list_of_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "python" / "private.md").read_text(
        encoding="utf-8"
    )
    with pytest.raises(UnstatedPrice) as raised:
        explainer(people(1_000))(NEW)
    assert str(raised.value) in page


@pytest.mark.parametrize("names", [[None] * 6, ["ann", "bob", None, None, "eve", None]])
def test_the_price_of_rows_without_a_name_is_that_of_all_of_them(names: list[Any]) -> None:
    """Each may be of anybody, also of somebody with a name: what one person can meet counts."""
    budget = Budget("clinic 2026", unit="explained row", **TERMS)
    stated = {"background_origin": "public", "budget": budget, "id_column": "name"}
    found = explainer(protect="explained", **stated)
    asked = people(6).assign(name=names)
    price = found.preview(asked, epsilon=0.5)
    found(asked, epsilon=0.5)
    assert budget.spent == pytest.approx(price.share, rel=1e-6)


# --- protected rows as rows to explain, and in files ----------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, np.asarray])
def test_a_slice_of_the_background_is_not_explained(kind: Any) -> None:
    schema = voile.Schema({"age": (18, 100), "income": (0, 500_000)})
    table, budget = kind(people(30)[["age", "income"]]), Budget("clinic 2026", **TERMS)
    part, terms = table[3:4], {"schema": schema, "budget": budget, "output_range": (0, 1)}
    terms["model"] = lambda rows: rows["age"] / 100
    found = explainer(table, background_rows=20, **terms)
    for ask in (found.preview, found):
        with pytest.raises(Refused, match="these rows are the protected background"):
            ask(part, epsilon=0.1)
    assert budget.spent == 0
    assert explainer(table[4:], **terms).preview(part, epsilon=0.1).cost == 0.1


def test_a_public_background_is_no_slice_of_the_protected_rows() -> None:
    table, budget = people(60), Budget("clinic 2026", **TERMS)
    public: dict[str, Any] = {"protect": "population", "background_origin": "public"}
    found = explainer(table[:20], budget=budget, **public)
    with pytest.raises(Refused, match="these rows are the background already"):
        found(table, epsilon=0.1)
    assert budget.spent == 0
    assert found.preview(table[20:], epsilon=0.1).cost > 0


def test_an_explainer_is_copied_but_not_pickled() -> None:
    found = explainer()
    assert copy.copy(found) is copy.deepcopy(found) is found
    with pytest.raises(Refused, match="holds protected rows"):
        pickle.dumps(found)


def test_an_explanation_is_pickled_without_its_receipt() -> None:
    why = explainer()(NEW, epsilon=0.1)
    again = pickle.loads(pickle.dumps(why))
    assert again == why
    assert again.guarantee == why.guarantee
    assert copy.deepcopy(why).receipt.released is why.released
    with pytest.raises(InvalidInput, match="save it there"):
        _ = again.receipt
