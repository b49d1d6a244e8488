"""Who is answered together, and who does not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from voile.app.serving import ServedAnswer
from voile.server.gathering import Gathering
from voile.server.metrics import Metrics

FOREVER = 3600.0


@dataclass
class Release:
    name: str


@dataclass
class Workspace:
    """Answers with what it was asked; the first batch waits until it may go on."""

    go: threading.Event = field(default_factory=threading.Event)
    batches: list[list[Any]] = field(default_factory=list)

    def answer(self, served: Release, requests: Sequence[Any]) -> list[Any]:  # noqa: ARG002
        self.batches.append(list(requests))
        if len(self.batches) == 1 and not self.go.wait(30):
            raise TimeoutError
        return [ServedAnswer(each, each) for each in requests]


def gathering(workspace: Workspace, **settings: Any) -> Gathering:
    told = {"seconds": FOREVER, "most": 4, **settings}
    return Gathering(workspace, Metrics(), **told)  # type: ignore[arg-type]


def gathered(gathers: Gathering) -> int:
    """How many wait."""
    return sum(len(each.requests) for each in gathers._waiting.values())


async def until(seen: Callable[[], bool]) -> None:
    while not seen():
        await asyncio.sleep(0.001)


def test_one_alone_does_not_wait_for_others() -> None:
    async def ask() -> None:
        workspace = Workspace()
        workspace.go.set()
        gathers = gathering(workspace)  # more would be waited for until the test is over
        for number in range(3):
            found = await gathers.answer(Release("a"), number)  # type: ignore[arg-type]
            assert isinstance(found, ServedAnswer)
        assert workspace.batches == [[0], [1], [2]]

    asyncio.run(asyncio.wait_for(ask(), 30))


@pytest.mark.parametrize(("count", "batches"), [(3, [1, 2]), (10, [1, 4, 4, 1])])
def test_who_comes_while_others_are_answered_is_answered_together(
    count: int, batches: list[int]
) -> None:
    async def ask() -> None:
        workspace = Workspace()
        gathers = gathering(workspace, seconds=0.0)
        asked = [
            asyncio.ensure_future(gathers.answer(Release("a"), number))  # type: ignore[arg-type]
            for number in range(count)
        ]
        await until(lambda: gathered(gathers) == count - 1)
        workspace.go.set()
        found = await asyncio.gather(*asked)
        answered: list[Any] = [each.explained for each in found if isinstance(each, ServedAnswer)]
        assert answered == list(range(count))
        assert [len(each) for each in workspace.batches] == batches

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_a_release_does_not_wait_for_another_one() -> None:
    async def ask() -> None:
        workspace = Workspace()
        gathers = gathering(workspace)
        slow = asyncio.ensure_future(gathers.answer(Release("a"), 1))  # type: ignore[arg-type]
        await until(lambda: len(workspace.batches) == 1)
        assert await gathers.answer(Release("b"), 2)  # type: ignore[arg-type]
        assert not slow.done()
        workspace.go.set()
        await slow

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_at_the_end_nobody_is_waited_for_and_everybody_is_answered() -> None:
    async def ask() -> None:
        workspace = Workspace()
        gathers = gathering(workspace)
        asked = [
            asyncio.ensure_future(gathers.answer(Release("a"), number))  # type: ignore[arg-type]
            for number in range(4)
        ]
        await until(lambda: gathered(gathers) == 3)
        workspace.go.set()
        await until(lambda: asked[0].done())
        last = asyncio.ensure_future(gathers.answer(Release("a"), 4))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await gathers.drain()
        await asyncio.gather(*asked, last)
        assert sum(map(len, workspace.batches)) == 5

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_who_hangs_up_is_answered_all_the_same() -> None:
    async def ask() -> None:
        workspace = Workspace()
        gathers = gathering(workspace)
        asked = asyncio.ensure_future(gathers.answer(Release("a"), 1))  # type: ignore[arg-type]
        await until(lambda: len(workspace.batches) == 1)
        asked.cancel()
        workspace.go.set()
        await gathers.drain()
        assert asked.cancelled()
        assert workspace.batches == [[1]]

    asyncio.run(asyncio.wait_for(ask(), 30))
