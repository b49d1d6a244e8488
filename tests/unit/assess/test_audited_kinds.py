"""Whatever costs privacy budget is audited, or it is said here why not."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import voile
from tests.contract.releases import ABOUT_USERS, ARTEFACTS, CASES, ITEM_SIDE
from voile import recommenders, release
from voile.assess.release_trials import KINDS, release_trial
from voile.core.errors import Refused
from voile.core.guarantee import RowPart
from voile.privacy.events import Gaussian
from voile.release.charged import ChargedRelease

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
ROOT = Path(voile.__file__).parent
BESIDES = {
    "NetworkTask": "stage_trial",
    "PrivateSteps": "stage_trial",
    "GuidedTask": "attribute_trial",
    "AttributeSteps": "attribute_trial",
    "PrivateTableNetwork": "stage_trial, which takes its steps as one participation",
    "TableNetworkPlan": "stage_trial",
    "PrivateMembersCount": "count_trial",
    "PrivateNetwork": "history_trial, by tests alone: `voile assess` says that it leaves it out",
    "OverOwnRows": "own_rows_trial",
    "LocalTraining": "stage_trial and, of its figures, own_rows_trial",
    "GlobalModel": "that of its LocalTraining",
    "_MomentsRelease": "its two kinds",
    "_StatisticsRelease": "its three kinds",
    "StatisticsTask": "sum_trial",
    "ReleaseImportance": "that of PrivateGlobalImportance, which it draws",
    "ShareImportance": "importance_sum_trial",
    "SharePopularity": "moments_sum_trial",
    "ReleasePopularity": "those of PrivatePopularity and PrivateGram, which they draw",
}
"""What costs something and is no release of its own kind, and what audits it."""
EXEMPT = {
    "Task": "a protocol",
    "Release": "a protocol",
    "ChargedRelease": "abstract",
    "PostProcessed": "costs nothing",
    "SharedGaussian": "a mechanism",
    "ReleaseTerms": "says what a release costs",
    "CallPrice": "says what a call costs",
    "PipelinePlan": "adds up what its stages cost",
    "NoisyStage": "is for calibration: nothing is released by it",
    "GaussianMechanism": "a mechanism: releases are made with it",
    "LaplaceMechanism": "a mechanism",
    "DiscreteGaussian": "a mechanism",
    "GaussianBlocks": "a mechanism",
    "DiscreteLaplace": "a mechanism",
    "ExponentialMechanism": "a mechanism",
    "SubsetSelection": "a mechanism",
    "Measure": "reads events",
    "ApprovalStep": "repeats the event that somebody asked to approve",
    "PublishedAllocation": "proposes; an account decides, a release is charged",
}


def with_a_cost() -> Iterator[str]:
    """Names of classes that say what something costs."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                made = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                if {"cost", "event"} & {each.name for each in made}:
                    yield node.name


def concrete() -> set[type[ChargedRelease]]:
    """All releases of voile that can be built."""
    for package in (release, recommenders):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    found, left = set(), [ChargedRelease]
    while left:
        subclasses = left.pop().__subclasses__()
        left += subclasses
        found |= {each for each in subclasses if not inspect.isabstract(each)}
    return {
        each
        for each in found
        if each.__module__.startswith("voile.") and not each.__name__.startswith("_")
    }


def test_every_release_that_is_charged_has_a_trial() -> None:
    besides = {each for each in concrete() if each.__name__ in BESIDES}
    assert concrete() - besides == {kind.release for kind in KINDS}


def test_whatever_says_what_it_costs_is_audited_or_exempt() -> None:
    known = {kind.release.__name__ for kind in KINDS} | BESIDES.keys() | EXEMPT.keys()
    assert set(with_a_cost()) - known == set()
    assert (BESIDES.keys() | EXEMPT.keys()) - set(with_a_cost()) == set()


LEFT_OUT = {"ratings of items", "network of histories"}
"""Kinds of release that only experiments have, or only tests audit."""


@pytest.mark.parametrize(
    "name", sorted((CASES | ARTEFACTS | ABOUT_USERS | ITEM_SIDE).keys() - LEFT_OUT)
)
def test_a_trial_bets_against_what_is_charged(name: str) -> None:
    built: Any = (CASES | ARTEFACTS | ABOUT_USERS | ITEM_SIDE)[name].build()
    if not isinstance(built, ChargedRelease):
        return
    trial = release_trial(name, built)
    assert trial.event == built.cost(1)
    assert trial.arrangements(True)
    if built.part is RowPart.EXPLAINED:
        assert trial.together == 1


def test_a_release_without_a_canary_is_refused() -> None:
    class Unheard(ChargedRelease):
        part: ClassVar = RowPart.OTHER
        identity_parts: ClassVar = ("", "", "")
        settings_v1: ClassVar = {}

        def prepare(self) -> None: ...
        def noise_guarantee(self, rows: int) -> Any: ...
        def accuracy(self, rows: int) -> Any: ...
        def cost(self, rows: int) -> Any:  # noqa: ARG002
            return Gaussian(1.0)

    built: Any = object.__new__(Unheard)
    with pytest.raises(Refused, match="Unheard cannot be audited"):
        release_trial("values", built)
