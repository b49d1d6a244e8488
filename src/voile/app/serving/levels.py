"""A coarser level: offered by a rule, taken only if the request says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from voile.app.compliance.enforcement import CoarserOffered
from voile.app.explain import ExplanationRequest
from voile.app.explain.walk import Outcome
from voile.app.serving.release import ServedRelease


def answer_or_offer(
    served: ServedRelease, rows: int, requests: Sequence[ExplanationRequest]
) -> list[Outcome]:
    """Of each request what becomes of it; requests for releases of one size together."""
    service = served.service
    quality = None if served.is_free else served.job.quality(service, rows)
    known = [replace(each, quality=quality) for each in requests]
    outcomes = service.answer_many(served.release(rows), known)
    return [
        _coarser(served, rows, request, outcome) if isinstance(outcome, CoarserOffered) else outcome
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _coarser(
    served: ServedRelease, rows: int, request: ExplanationRequest, offered: CoarserOffered
) -> Outcome:
    job = served.job.coarser(served.service)
    if job is None:
        return offered
    if not request.coarser:
        return offered.at(job.spec.level.value)
    release = job.release(served.service, rows)
    (outcome,) = served.service.answer_many(release, [replace(request, offered=True)])
    return outcome
