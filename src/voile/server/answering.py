"""The way of one explanation: who asks, what is asked, answered together with others, and when it
leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from voile.app.explain import ReleasedExplanation, RowsToExplain
from voile.app.serving import (
    AskedExplanation,
    Caller,
    CallerRequest,
    NotAuthenticated,
    ServedAnswer,
    ServedRelease,
    ServedWorkspace,
)
from voile.app.serving.release import answer_facts
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.records.access import Duty
from voile.server.gathering import Gathering, Outcome
from voile.server.identity import Identities
from voile.server.load import Load
from voile.server.metrics import Metrics
from voile.server.problems import StillRunning, UnusableKey

ACCOUNT: Final = "Voile-Account"
COARSER: Final = "Voile-Coarser"
REPEAT: Final = "Idempotency-Key"
TIMING: Final = "Voile-Timing"
_LONGEST_REPEAT: Final = 255


class LoopClock:
    """The clock of the running loop.

    Arrival and departure are read from this one clock, which counts milliseconds in uvloop. So an
    answer leaves at a moment that its arrival decides: a wait from now on would be rounded, and
    what it is rounded by follows from how long the answer took.
    """

    def now(self) -> float:
        """Seconds."""
        return asyncio.get_running_loop().time()

    async def wait_until(self, moment: float) -> None:
        """Come back then."""
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        handle = loop.call_at(moment, _reach, reached)
        try:
            await reached
        finally:
            handle.cancel()


def _reach(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


@dataclass
class Service:
    """What all routes share.

    Args:
        clock: decides when a charged answer leaves.
        running: keys against repetition of the requests that are being answered.
        leaving: it was told to stop.
    """

    workspace: ServedWorkspace
    metrics: Metrics
    identities: Identities
    gathering: Gathering
    load: Load
    clock: LoopClock = field(default_factory=LoopClock)
    running: set[Hashable] = field(default_factory=set)
    leaving: bool = False

    @classmethod
    def of_workspace(cls, workspace: ServedWorkspace) -> Service:
        """For an open workspace."""
        metrics, settings = Metrics(), workspace.settings
        gathering = Gathering(workspace, metrics, seconds=settings.gather, most=settings.together)
        load = Load(workspace.vault)
        return cls(workspace, metrics, Identities(workspace), gathering, load)


@dataclass(frozen=True)
class Given:
    """An explanation that may leave now, and how it was held back.

    Args:
        rows: what was explained.
        slot, seconds: of the delay; 0 where there is none.
    """

    served: ServedRelease
    explained: ReleasedExplanation
    rows: RowsToExplain
    slot: int = 0
    seconds: float = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values of the answer, with what whoever asked should know about the release."""
        return {**answer_facts(self.explained), "remarks": list(self.served.remarks)}

    def tell(self, response: Response) -> None:
        """Say in a header when it left: 1 is the slot it was meant for."""
        if self.slot:
            response.headers[TIMING] = f"slot={self.slot}; seconds={self.seconds:.4f}"


def service_of(request: Request) -> Service:
    """Of the application that a request came to."""
    found: Service = request.app.state.service
    return found


async def _service(request: Request) -> Service:
    """The same for routes; a plain function would be run in a thread."""
    return service_of(request)


async def _caller(request: Request) -> Caller:
    found = await service_of(request).identities.caller(request)
    request.state.caller = found.name
    return found


def needs(*duties: Duty) -> Callable[..., Any]:
    """Whoever asks has one of these duties."""

    async def check(request: Request) -> Caller:
        found = await _caller(request)
        if found.is_anonymous:
            raise NotAuthenticated("this needs an API key or a token")
        if not found.grants.duties & set(duties):
            found.check_duty(duties[0])
        return found

    return check


SomeCaller = Annotated[Caller, Depends(_caller)]
"""Anonymous or not: the release decides."""
FOR_EXPLAINERS: Final = Depends(needs(Duty.EXPLAIN))
FOR_AUDITORS: Final = Depends(needs(Duty.AUDIT))
FOR_OPERATORS: Final = Depends(needs(Duty.OPERATE))
Explaining = Annotated[Caller, FOR_EXPLAINERS]
Observing = Annotated[Caller, Depends(needs(Duty.OBSERVE, Duty.AUDIT))]
Owning = Annotated[Caller, Depends(needs(Duty.OBSERVE))]
Approving = Annotated[Caller, Depends(needs(Duty.APPROVE))]
Administering = Annotated[Caller, Depends(needs(Duty.ADMINISTER))]
OneService = Annotated[Service, Depends(_service)]


def repeat_key(request: Request) -> str | None:
    """The key against repetition that was sent."""
    found = request.headers.getlist(REPEAT)
    if not found:
        return None
    if len(found) > 1 or not 0 < len(found[0]) <= _LONGEST_REPEAT:
        raise UnusableKey("an Idempotency-Key has 1 to 255 characters, and there is one of it")
    return found[0]


async def give(
    service: Service, served: ServedRelease, asked: AskedExplanation, caller: Caller
) -> Given:
    """Answer one request; raises why there is no answer."""
    (found,) = await give_all(service, served, [asked], caller)
    if isinstance(found, Exception):
        raise found
    return found


async def give_all(
    service: Service, served: ServedRelease, asked: Sequence[AskedExplanation], caller: Caller
) -> list[Given | Exception]:
    """Answer several requests of one caller, if there is room for them; each has an outcome of its
    own. They hold their place until they may leave."""
    async with service.load.place(served.cost * len(asked)):
        return await _give_all(service, served, asked, caller)


async def _give_all(
    service: Service, served: ServedRelease, asked: Sequence[AskedExplanation], caller: Caller
) -> list[Given | Exception]:
    arrived = service.clock.now()
    requests = [CallerRequest(each, caller, part) for part, each in enumerate(asked)]
    outcomes = await asyncio.gather(*(_answer(service, served, each) for each in requests))
    answers = [each.explained for each in outcomes if isinstance(each, ServedAnswer)]
    rows = sum(len(each.explanation) for each in answers if each.charges)
    slot, seconds = await _hold(service, served, rows, arrived)
    return [
        each
        if isinstance(each, Exception)
        else Given(served, each.explained, each.rows, slot, seconds)
        for each in outcomes
    ]


async def _answer(service: Service, served: ServedRelease, request: CallerRequest) -> Outcome:
    asked = request.asked
    if asked.repeat is None or served.is_free:
        return _counted(service, served, await service.gathering.answer(served, request))
    # An account under its other name is another scope here; the transaction knows that it is not.
    scope = (request.caller.grants.caller, asked.account, asked.endpoint, asked.repeat)
    running = (*scope, request.part)
    if running in service.running:
        return StillRunning("this request is being answered")
    service.running.add(running)
    try:
        return _counted(service, served, await service.gathering.answer(served, request))
    finally:
        service.running.discard(running)


def _counted(service: Service, served: ServedRelease, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Exception):
        what = "refused" if isinstance(outcome, BudgetExceeded | InvalidInput) else "failed"
    elif not outcome.explained.charges:
        what = "free"
    else:
        what = "replayed" if outcome.explained.replayed else "charged"
    service.metrics.answers.labels(served.name, what).inc()
    return outcome


async def _hold(
    service: Service, served: ServedRelease, rows: int, arrived: float
) -> tuple[int, float]:
    """Wait for the slot; which one it was, and how long one lasts."""
    passed = service.clock.now() - arrived
    service.metrics.working.labels(served.name).observe(passed)
    if served.delay is None or rows == 0:
        return 0, 0.0
    seconds = served.delay.seconds(rows)
    slot = served.delay.slot(rows, passed)
    if slot > 1:
        service.metrics.missed.labels(served.name).inc()
    await service.clock.wait_until(arrived + slot * seconds)
    return slot, seconds
