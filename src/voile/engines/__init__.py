"""Engines: run one function over many parts, in this process, on Ray or on Spark.

An engine takes a function and parts, both of which can be pickled, and gives the results in the
order of the parts. A part whose worker is lost is run again elsewhere, so the function must give
the same again.

>>> list(ENGINES["local"](abs, [-2, 3]))
[2, 3]

Other packages add engines as entry points of the group `voile.engines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from voile.core.choices import ExtensibleKinds

Work: TypeAlias = Callable[[Any], Any]
"""What is done with one part."""
Engine: TypeAlias = Callable[[Work, Sequence[Any]], Iterator[Any]]


def run_here(work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    """One part after the other, in this process."""
    return map(work, parts)


def run_on_ray(work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    """On the Ray cluster of this session (`RAY_ADDRESS`), or on all cores of this machine."""
    from voile.engines.ray import run

    return run(work, parts)


def run_on_spark(work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    """On the Spark session that is active, or on all cores of this machine."""
    from voile.engines.spark import run

    return run(work, parts)


ENGINES: Final[Mapping[str, Engine]] = ExtensibleKinds(
    {"local": run_here, "ray": run_on_ray, "spark": run_on_spark}, "voile.engines"
)
"""By the name that `voile explain --engine` takes."""
