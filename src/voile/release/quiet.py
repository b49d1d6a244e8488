"""Silence while protected rows are looked at: what a row provokes must not be heard of.

Warnings and the logging module are silenced. What a model writes to its own files, or straight to
standard output and error, cannot be: guarantees say so (`UNHEARD`).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

import numpy as np

UNHEARD: Final = "what the model itself prints or writes to files of its own is not published"
_lock = Lock()
_inside = 0
_loud: list[tuple[warnings.catch_warnings[None], Callable[..., bool]]] = []


@contextmanager
def quietly() -> Iterator[None]:
    """No warning of anything inside is shown or raised, and nothing is logged.

    Python keeps one list of warning filters, and one class of loggers, for all threads. Threads
    that are in here together share one silence: the first one saves both, the last one puts them
    back.
    """
    _enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _leave()


def _enter() -> None:
    global _inside
    with _lock:
        if _inside == 0:
            saved = warnings.catch_warnings()
            saved.__enter__()
            warnings.simplefilter("ignore")
            # `logging.disable` says the same to every logger there is, one after the other, which
            # takes longer than drawing the noise.
            _loud.append((saved, logging.Logger.isEnabledFor))
            logging.Logger.isEnabledFor = _nobody  # type: ignore[assignment]
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside == 0:
            saved, enabled = _loud.pop()
            saved.__exit__(None, None, None)
            logging.Logger.isEnabledFor = enabled  # type: ignore[method-assign]


def _nobody(logger: logging.Logger, level: int) -> bool:  # noqa: ARG001
    return False
