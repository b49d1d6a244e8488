"""Silence while protected rows are looked at: what a row provokes must not be heard of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np

_lock = Lock()
_inside = 0
_loud: list[warnings.catch_warnings[None]] = []


@contextmanager
def quietly() -> Iterator[None]:
    """No warning of anything inside is shown or raised.

    Python keeps one list of warning filters for all threads. Threads that are in here together
    share one silence: the first one saves the filters, the last one puts them back.
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
            _loud.append(saved)
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside == 0:
            _loud.pop().__exit__(None, None, None)
