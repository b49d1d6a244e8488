"""One thread for matrix products: sums have one order, and small networks are faster."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any

_LOCK = threading.Lock()
_inside = 0
_outside: list[int] = []


class one_thread(ContextDecorator):  # noqa: N801  used as a function is
    """Products of numpy use one thread inside, in all threads of the process.

    Many may be inside at once, clients that train side by side for example; the last one to leave
    puts the number of threads back.
    """

    def __enter__(self) -> None:
        global _inside, _outside
        with _LOCK:
            if _inside == 0:
                _outside = [library.num_threads for library in _libraries()]
                for library in _libraries():
                    library.set_num_threads(1)
            _inside += 1

    def __exit__(self, *_: object) -> None:
        global _inside
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                for library, threads in zip(_libraries(), _outside, strict=True):
                    library.set_num_threads(threads)


@cache
def _libraries() -> tuple[Any, ...]:
    """Those that multiply matrices for numpy, as far as they are known (not on a Mac)."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
