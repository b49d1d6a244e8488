"""Every way in which a schema file can be wrong, with the line and the field it is reported for."""

from __future__ import annotations

from pathlib import Path

import pytest

from voile.core.errors import SchemaError
from voile.core.schema import Categories, Feature, Label, Numbers, Schema

CLINIC = """\
name = "clinic"

[label]
name = "readmitted"
categories = ["no", "yes"]

[features.age]
kind = "continuous"
bounds = [18, 100]
default = 50
semantic = "demographics"

[features.sex]
kind = "categorical"
categories = ["female", "male"]
default = "female"
semantic = "demographics"

[features.visits]
kind = "integer"
bounds = [0, 21]
"""


SEX_DEFAULT = ("features.sex.default", "not one of")


def failure(text: str) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    return caught.value


def test_the_example_means_what_it_says() -> None:
    assert Schema.loads(CLINIC) == Schema(
        "clinic",
        (
            Feature("age", Numbers(18, 100), 50, "demographics"),
            Feature("sex", Categories(("female", "male")), "female", "demographics"),
            Feature("visits", Numbers(0, 21, whole=True), 10, "visits"),
        ),
        Label("readmitted", Categories(("no", "yes"))),
    )


@pytest.mark.parametrize(
    ("found", "instead", "line", "field", "problem"),
    [
        ("[18, 100]", "[100, 18]", 9, "features.age.bounds", "below"),
        ("[18, 100]", "[18, 18.0]", 9, "features.age.bounds", "below"),
        ("[18, 100]", "[18, inf]", 9, "features.age.bounds", "finite"),
        ("[18, 100]", "[nan, 100]", 9, "features.age.bounds", "finite"),
        ("[18, 100]", "[0, 0x" + "f" * 5000 + "]", 9, "features.age.bounds", "finite"),
        ("[18, 100]", "[-1e308, 1e308]", 9, "features.age.bounds", "too far apart"),
        ("[18, 100]", "[true, 100]", 9, "features.age.bounds", "number, found True"),
        ("[18, 100]", '["18", 100]', 9, "features.age.bounds", "number, found '18'"),
        ("[18, 100]", "[18]", 9, "features.age.bounds", "two numbers"),
        ("[18, 100]", "100", 9, "features.age.bounds", "two numbers"),
        ("[18, 100]", "[\n  100,\n  18,\n]", 9, "features.age.bounds", "below"),
        ("[0, 21]", "[0, 20.5]", 21, "features.visits.bounds", "whole"),
        ("[0, 21]", "[0, 1125899906842624]", 21, "features.visits.bounds", "2**49"),
        ('"continuous"', '"continous"', 8, "features.age.kind", "did you mean 'continuous'?"),
        ('"continuous"', "3", 8, "features.age.kind", "unknown kind 3"),
        ('kind = "continuous"\n', "", 7, "features.age.kind", "missing"),
        ("bounds = [18, 100]\n", "", 7, "features.age.bounds", "missing"),
        ("bounds = [18, 100]", "bound = [18, 100]", 9, "features.age.bound", "mean 'bounds'?"),
        ('["female", "male"]', '["f"]\nbounds = [0, 1]', 16, "features.sex.bounds", "unknown key"),
        ("default = 50", "default = 17", 10, "features.age.default", "outside the bounds"),
        ("default = 50", "default = true", 10, "features.age.default", "number, found True"),
        ('default = "female"', 'default = "F"', 16, "features.sex.default", "not one of"),
        ('["female", "male"]\ndefault = "female"', "[0, 1]\ndefault = true", 16, *SEX_DEFAULT),
        ('["female", "male"]\ndefault = "female"', "[0, 1]\ndefault = 1.0", 16, *SEX_DEFAULT),
        ('semantic = "demographics"', "semantic = 1", 11, "features.age.semantic", "text"),
        ('semantic = "demographics"', 'semantic = " "', 11, "features.age.semantic", "empty"),
        (
            '["female", "male"]',
            '["m", "f", "m"]',
            15,
            "features.sex.categories",
            "'m' is listed tw",
        ),
        ('["female", "male"]', "[]", 15, "features.sex.categories", "list of strings"),
        ('["female", "male"]', '"female"', 15, "features.sex.categories", "list of strings"),
        ('["female", "male"]', '["f", 1]', 15, "features.sex.categories", "1 among strings"),
        ('["female", "male"]', "[1, true]", 15, "features.sex.categories", "found True"),
        ('["female", "male"]', "[1, 2.5]", 15, "features.sex.categories", "found 2.5"),
        ('["female", "male"]', '["f", ""]', 15, "features.sex.categories", "empty"),
        ('["female", "male"]', '["f", "m "]', 15, "features.sex.categories", "blanks"),
        ('name = "clinic"', 'name = ""', 1, "name", "empty"),
        ('name = "clinic"', "name = 7", 1, "name", "text"),
        ('name = "clinic"', "", 1, "name", "missing"),
        ('name = "clinic"', 'name = "c"\nfeature = 1', 2, "feature", "did you mean 'features'?"),
        ('name = "readmitted"', 'name = "age"', 4, "label.name", "also a feature"),
        ('name = "readmitted"', 'name = ""', 4, "label.name", "empty"),
        ('categories = ["no", "yes"]', "", 3, "label", "found neither"),
        ('categories = ["no", "yes"]', "bounds = [1, 0]", 5, "label.bounds", "below"),
        ('categories = ["no", "yes"]', "category = []", 5, "label.category", "'categories'?"),
        ("[features.age]", '[features.""]', 7, 'features."".name', "empty"),
        ("[features.visits]", "[[features.visits]]", 19, "features.visits", "expected a table"),
    ],
)
def test_error_names_line_and_field(
    found: str, instead: str, line: int, field: str, problem: str
) -> None:
    text = CLINIC.replace(found, instead, 1)
    error = failure(text)
    assert (error.line, error.field) == (line, field)
    assert problem in error.problem
    assert str(error).startswith(f"line {line}: {field}: ")


def test_both_kinds_of_label_at_once() -> None:
    error = failure(CLINIC.replace('"yes"]', '"yes"]\nbounds = [0, 1]'))
    assert (error.line, error.field) == (3, "label")


def test_encoded_columns_need_names_of_their_own() -> None:
    error = failure(CLINIC.replace("[features.visits]", '[features."sex=male"]'))
    assert (error.line, error.field) == (19, 'features."sex=male"')


@pytest.mark.parametrize("features", ["", "[features]\n"])
def test_a_schema_without_features(features: str) -> None:
    error = failure('name = "x"\n' + features)
    assert error.field == "features"
    assert error.line == (2 if features else 1)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ('name = "x\n', 1, "name"),
        ("name =\n", 1, "name"),
        ('name = "x"\n[features.a]\nkind = "integer"\nbounds = [0, 1\n', 4, "features.a.bounds"),
        ('name = "x"\nname = "y"\n', 2, "name"),
        ("[features.a]\nbounds = [0, 1]\nbounds = [0,\n 2]\n", 4, "features.a.bounds"),
        ("[features.a]\n[features.b]\n[features.a]\n", 3, "features.a"),
        ("a = " + "[" * 10_000, 1, "a"),
        ("name = " + "1" * 5_000, 1, "name"),
        ("???\n", 1, "document"),
    ],
)
def test_broken_toml(text: str, line: int, field: str) -> None:
    error = failure(text)
    assert (error.line, error.field) == (line, field)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "clinic.toml"
    file.write_bytes(b"\xef\xbb\xbf" + CLINIC.replace("\n", "\r\n").encode())
    assert Schema.load(file) == Schema.loads(CLINIC) == Schema.load(str(file))

    file.write_text(CLINIC.replace("[18, 100]", "[100, 18]"))
    with pytest.raises(SchemaError, match=r"line 9: features\.age\.bounds") as caught:
        Schema.load(file)
    assert caught.value.file == file

    file.write_bytes(CLINIC.replace("[0, 21]", "[21,\n0]").replace("\n", "\r\n").encode())
    with pytest.raises(SchemaError, match=r"line 21: features\.visits\.bounds"):
        Schema.load(file)

    file.write_bytes(b'name = "x"\n# caf\xe9\n')
    with pytest.raises(SchemaError, match="line 2: document: not UTF-8"):
        Schema.load(file)
    with pytest.raises(SchemaError, match=r"nowhere\.toml: document: cannot be read"):
        Schema.load(tmp_path / "nowhere.toml")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path)


def test_errors_in_python_know_the_field_without_a_line() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema("x", (Feature("a", Numbers(0, 1)), Feature("a", Categories((1, 2)))))
    assert (caught.value.field, caught.value.line) == ("features.a", None)
    with pytest.raises(SchemaError, match="UTF-8"):
        Feature("\ud800", Numbers(0, 1))
    with pytest.raises(SchemaError, match="continuous"):
        Label("y", Numbers(0, 1, whole=True))


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    """In the order of the file; the first is what the error itself is about."""
    text = """\
name = "to be filled in"
[label]
name = "ill"
categories = []
[features.age]
kind = ""
[features.sex]
kind = "categorical"
categories = ["f", "m"]
[features.visits]
kind = "integer"
"""
    error = failure(text)
    assert (error.field, error.line) == ("label.categories", 4)
    assert [(each.field, each.line) for each in error.more] == [
        ("features.age.kind", 6),
        ("features.visits.bounds", 10),
    ]
    file = tmp_path / "schema.toml"
    file.write_text(text)
    with pytest.raises(SchemaError) as raised:
        Schema.load(file)
    lines = str(raised.value).splitlines()
    assert [line.startswith(f"{file}: line ") for line in lines] == [True] * 3


CUTS = """
name = "people"
[features.pressure]
kind = "continuous"
bounds = [80, 200]
cuts = [120, 140]
"""


def test_cut_points_are_read_and_written() -> None:
    found = Schema.loads(CUTS)
    assert found.features[0].cuts == (120.0, 140.0)
    assert Schema.loads(found.dumps()) == found
    without = Schema.loads(CUTS.replace("cuts = [120, 140]", ""))
    assert without.features[0].cuts is None
    assert "cuts" not in without.dumps()
    assert found.digest != without.digest
    assert "cuts" not in vars(without.features[0])  # digests of models hold what an object holds


@pytest.mark.parametrize(
    ("cuts", "problem"),
    [
        ("[140, 120]", "must rise"),
        ("[80, 120]", "above 80"),
        ("[120, 201]", "at most 200"),
        ("[]", "list of numbers"),
        ("120", "list of numbers"),
        ('["a"]', "expected a number"),
        ("[nan]", "finite"),
    ],
)
def test_cut_points_that_make_no_bins_are_refused(cuts: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem) as caught:
        Schema.loads(CUTS.replace("[120, 140]", cuts))
    assert caught.value.field == "features.pressure.cuts"


def test_only_numbers_have_cut_points() -> None:
    text = 'name = "people"\n[features.a]\nkind = "categorical"\ncategories = ["x"]\ncuts = [1]\n'
    with pytest.raises(SchemaError, match="only numbers"):
        Schema.loads(text)
