"""A stored answer is found again whatever classes and sentences are called: else people pay twice.

`stored/identities.json` holds identities of every kind of release. Version 1 was written by code
that spelled class names and sentences into them; nothing in the file may ever have to change.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import voile
from tests.contract.releases import ABOUT_USERS, ARTEFACTS, CASES, COUNTS, ITEM_SIDE, Case
from voile.core.guarantee import Relation
from voile.models import Box, Simplex
from voile.models.outputs import DeclaredOutputs
from voile.release import ReleaseIdentity
from voile.release.contract import parameters
from voile.release.origin import outputs_identity, outputs_v1

ALL = CASES | ABOUT_USERS | ARTEFACTS | COUNTS | ITEM_SIDE
_FOLDER = Path(__file__).parent / "stored"
STORED: dict[str, dict[str, list[str]]] = json.loads((_FOLDER / "identities.json").read_text())
CHARGED = {name: case for name, case in ALL.items() if case.build().cost(case.count) is not None}
each = pytest.mark.parametrize(("name", "case"), ALL.items(), ids=ALL)
each_charged = pytest.mark.parametrize(("name", "case"), CHARGED.items(), ids=CHARGED)
_TAG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/2")
_KEY = re.compile(r"[a-z0-9]+([ _-][a-z0-9]+)*")
_SENTENCE = re.compile(r"(\S+\s+){3}\S+")


def spelled(identity: ReleaseIdentity) -> list[str]:
    """As it is stored; which items make the head is drawn with noise in each run."""
    settings = json.loads(identity.parameters)
    if len(str(settings.get("head", ""))) == 64:
        settings["head"] = "HEAD"
    return [identity.model, identity.explainer, identity.level, parameters(settings)]


def test_every_release_has_stored_identities() -> None:
    assert set(STORED["2"]) == set(ALL)
    assert set(STORED["1"]) == set(CHARGED)


@each
def test_an_identity_is_what_it_was(name: str, case: Case) -> None:
    assert spelled(case.build().identity) == STORED["2"][name]


@each_charged
def test_what_version_1_stored_is_recognised(name: str, case: Case) -> None:
    (first,) = case.build().identity.earlier
    assert spelled(first) == STORED["1"][name]


@each
def test_an_identity_holds_tags_and_names_only(name: str, case: Case) -> None:  # noqa: ARG001
    identity = case.build().identity
    assert _TAG.fullmatch(identity.explainer)
    assert not faults(json.loads(identity.parameters))


@pytest.mark.parametrize(
    "value",
    [
        *(repr(Box(0, 1)), "Box", "<Relation.BLANK_ONE: 'blank one'>", "OverItself"),
        *("values are exact, not estimated", "ReleaseIdentity", {"Box": 1}, [{"a": "Simplex()"}]),
    ],
)
def test_the_test_sees_what_does_not_belong(value: Any) -> None:
    assert faults({"setting": value})


def test_another_class_name_is_the_same_question() -> None:
    case = CASES["private background, replace one"]
    before = case.build().identity
    Box.__qualname__ = "Interval"
    try:
        assert repr(Box(0, 1)) == "Interval(lower=0, upper=1)"
        assert case.build().identity == before
    finally:
        Box.__qualname__ = "Box"


def test_other_words_in_a_guarantee_are_the_same_question() -> None:
    release: Any = CASES["clipped"].build()
    (trained, *rest) = release.origins
    (promise,) = trained.guarantees
    reworded = replace(trained, guarantees=(replace(promise, mechanism="noise on the output"),))
    weaker = replace(trained, guarantees=(replace(promise, epsilon=promise.epsilon / 2),))
    assert replace(release, origins=[reworded, *rest]).identity.parameters == (
        release.identity.parameters
    )
    assert replace(release, origins=[weaker, *rest]).identity.parameters != (
        release.identity.parameters
    )


def test_a_setting_without_a_json_form_is_no_setting() -> None:
    with pytest.raises(TypeError):
        parameters({"outputs": Box(0, 1)})


def test_output_sets_are_spelled_out() -> None:
    sets: list[DeclaredOutputs] = [Box(0, 1), Box((0.0, 1.0), (2.0, 3.0)), Simplex()]
    assert [outputs_v1(each) for each in sets] == [
        "Box(lower=0, upper=1)",
        "Box(lower=(0.0, 1.0), upper=(2.0, 3.0))",
        "Simplex()",
    ]
    assert len({json.dumps(outputs_identity(each)) for each in sets}) == 3


def faults(settings: Any) -> list[str]:
    """Texts that are a class name, a `repr` or a sentence."""
    return [text for text in texts(settings) if not is_name(text)]


def texts(settings: Any) -> Iterator[str]:
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, dict):
        for key, value in settings.items():
            yield key
            yield from texts(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from texts(value)


def is_name(text: str) -> bool:
    if text in set(map(str, Relation)):  # stored tags of several words
        return True
    words = set(re.findall(r"\w+", text))
    return not (words & _classes() or re.search(r"[()<>=]", text) or _SENTENCE.search(text))


def _classes() -> set[str]:
    """Names of all classes of voile with more than one letter."""
    if not _found:
        for module in pkgutil.walk_packages(voile.__path__, "voile."):
            if ".flower" in module.name or module.name.endswith("__main__"):
                continue
            members = vars(import_module(module.name)).values()
            _found.update(m.__name__ for m in members if inspect.isclass(m))
        _found.difference_update({"str", "int", "float", "bool", "object", "type"})
    return _found


_found: set[str] = set()
