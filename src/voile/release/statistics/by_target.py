"""The model of each kind of target: two classes, several classes, a number."""

from __future__ import annotations

from typing import TypeAlias

from voile.models.additive import AdditiveModel
from voile.release.statistics.calibrating import calibrated_model
from voile.release.statistics.first_model import FirstModel
from voile.release.statistics.number_target import NumberFit, NumberModel
from voile.release.statistics.several_classes import ClassesFit, ClassesModel
from voile.release.statistics.solving import Estimates
from voile.release.statistics.targets import Whole

BeforeCalibration: TypeAlias = FirstModel | ClassesModel | NumberModel


def solved_model(given: Estimates) -> BeforeCalibration:
    """The model of the first two releases; a function of them and of public facts."""
    target = given.budget.target
    if target.is_number:
        return NumberModel.solved(given)
    return FirstModel.solved(given) if target.parts == 1 else ClassesModel.solved(given)


def fitted_model(first: BeforeCalibration, table: Whole) -> AdditiveModel:
    """With the third release."""
    if isinstance(first, NumberModel):
        return NumberFit(first, table).model
    if isinstance(first, ClassesModel):
        return ClassesFit(first, table).model
    return calibrated_model(first, table)
