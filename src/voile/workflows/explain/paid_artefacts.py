"""Artefacts that are paid for once and then used for ever: a synthetic background, clusters.

What it costs follows from public facts, so the artefact is drawn in memory first, and leaves only
after the transaction that charges it. Asking again gives the same artefact again, at no cost.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.core.input_file import damaged
from voile.core.schema import Schema
from voile.ledger import Account, PublicInput, Question, RowPart
from voile.release import SyntheticBackground, synthetic_background
from voile.release.contract import parameters
from voile.release.feature_clusters import CLUSTERS, Clusters, private_clusters
from voile.release.synthetic import BINS
from voile.workflows.explain.charging import Drawn, Request
from voile.workflows.explain.questions import public_size
from voile.workflows.explain.service import ReleaseService

NAME: Final = "synthetic background"
NAME_OF_CLUSTERS: Final = "clusters of features"
_STORED: Final = Path("stored answer")


def paid_synthetic_background(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    size: int = 1_000,
    bins: int = BINS,
    caller: str = "custodian",
) -> SyntheticBackground:
    """Rows that anybody may see, made from protected records and charged to an account.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        size, bins: see `voile.release.synthetic_background`.
    """
    paying = _paying(service, account)
    made = synthetic_background(
        records,
        schema,
        protected=paying.protected,
        epsilon=epsilon,
        delta=delta,
        size=size,
        bins=bins,
    )
    settings = {
        "epsilon": epsilon,
        "delta": delta,
        "size": size,
        "bins": bins,
        "rows": public_size(records, paying.protected.relation),
    }
    request = _request(
        paying,
        schema,
        NAME,
        settings,
        event=made.event,
        guarantees=(made.guarantee,),
        subject=f"{NAME} of {size} rows",
        caller=caller,
        part=RowPart.BACKGROUND,
    )
    answer = service.answer_request(request, lambda: Drawn(packed(made)))
    kept = unpacked(answer.content, made) if answer.replayed else made
    return replace(kept, charge=answer.charge)


def paid_clusters(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    count: int = CLUSTERS,
    caller: str = "custodian",
) -> Clusters:
    """Clusters of features for the aggregate level, found in protected records and charged.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        count: see `voile.release.private_clusters`.
    """
    paying = _paying(service, account)
    made = private_clusters(
        records,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        protected=paying.protected,
        count=count,
    )
    assert made.event is not None
    size = public_size(records, paying.protected.relation)
    settings = {"epsilon": epsilon, "delta": delta, "count": count, "rows": size}
    request = _request(
        paying,
        schema,
        NAME_OF_CLUSTERS,
        settings,
        event=made.event,
        guarantees=made.origin.guarantees,
        subject=f"at most {count} {NAME_OF_CLUSTERS}",
        caller=caller,
        part=RowPart.POPULATION,
    )
    answer = service.answer_request(request, lambda: Drawn(json.dumps(made.groups).encode()))
    # What was stored, also the first time: who loses a race gets the clusters of the winner.
    with damaged(_STORED):
        stored = json.loads(answer.content)
        groups = {str(name): tuple(map(str, members)) for name, members in stored.items()}
    return replace(made, groups=groups, charge=answer.charge)


def _paying(service: ReleaseService, name: str) -> Account:
    return service.custody.account(name)


def _request(
    paying: Account, schema: Schema, name: str, settings: Mapping[str, object], **release: Any
) -> Request:
    """One question for one artefact of a data set: asked again, it is answered again."""
    question = Question(
        account=paying.name,
        model=schema.digest,
        explainer=name,
        level=name,
        parameters=parameters(settings),
        about=PublicInput(f"{name} of {paying.protected.dataset}".encode()),
    )
    return Request(question=question, purpose=name, **release)


def packed(made: SyntheticBackground) -> bytes:
    """Rows and histograms as they are stored."""
    buffer = io.BytesIO()
    for array in (made.rows, *made.histograms):
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpacked(content: bytes, made: SyntheticBackground) -> SyntheticBackground:
    """What was stored, with everything else as it was made now."""
    buffer = io.BytesIO(content)
    with damaged(_STORED):
        rows, *histograms = (
            np.lib.format.read_array(buffer, allow_pickle=False)
            for _ in range(1 + len(made.histograms))
        )
        expected = [array.shape for array in (made.rows, *made.histograms)]
        if [rows.shape, *(counts.shape for counts in histograms)] != expected:
            raise ValueError(f"expected arrays of shapes {expected}")
        return replace(made, rows=rows, histograms=tuple(histograms))
