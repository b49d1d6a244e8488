"""One thread for matrix products: sums have one order, and small networks are faster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_LOCK = threading.Lock()
_inside = 0
_limited: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Products of numpy use one thread inside, in all threads of the process.

    Many may be inside at once, clients that train side by side for example; the last one to leave
    puts the number of threads back.
    """
    global _inside, _limited
    with _LOCK:
        if _inside == 0:
            _limited = _products().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                _limited.restore_original_limits()


@cache
def _products() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
