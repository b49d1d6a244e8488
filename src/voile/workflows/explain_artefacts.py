"""Artefacts that are paid for once and then used for ever: a synthetic background.

What it costs follows from public facts, so the artefact is drawn in memory first, and leaves only
after the transaction that charges it. Asking again gives the same rows again, at no cost.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any, Final

import numpy as np

from voile.core.guarantee import ProtectedUnit
from voile.core.schema import Schema
from voile.ledger import PublicInput, Question, RowPart
from voile.release import SyntheticBackground, synthetic_background
from voile.release.contract import parameters
from voile.release.synthetic import BINS
from voile.workflows.charging import Desk, Drawn, Request
from voile.workflows.explain_account import check_account

NAME: Final = "synthetic background"


def paid_synthetic_background(
    desk: Desk,
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
    paying = desk.storage.submit(lambda t: desk.ledger.account(t, account))
    check_account(paying, dataset=paying.dataset, unit=ProtectedUnit.ROW, relation=paying.relation)
    made = synthetic_background(
        records,
        schema,
        dataset=paying.dataset,
        relation=paying.relation,
        epsilon=epsilon,
        delta=delta,
        size=size,
        bins=bins,
    )
    settings = {"epsilon": epsilon, "delta": delta, "size": size, "bins": bins}
    question = Question(
        account=account,
        model=schema.digest,
        explainer=NAME,
        level=NAME,
        parameters=parameters(settings),
        about=PublicInput(f"{NAME} of {paying.dataset}".encode()),
    )
    request = Request(
        question=question,
        event=made.event,
        guarantees=(made.guarantee,),
        subject=f"{NAME} of {size} rows",
        purpose=NAME,
        caller=caller,
        part=RowPart.BACKGROUND,
    )
    answer = desk.answer(request, lambda: Drawn(_packed(made)))
    return _unpacked(answer.content, made) if answer.replayed else made


def _packed(made: SyntheticBackground) -> bytes:
    buffer = io.BytesIO()
    for array in (made.rows, *made.histograms):
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _unpacked(content: bytes, made: SyntheticBackground) -> SyntheticBackground:
    buffer = io.BytesIO(content)
    rows, *histograms = (
        np.lib.format.read_array(buffer, allow_pickle=False)
        for _ in range(1 + len(made.histograms))
    )
    return replace(made, rows=rows, histograms=tuple(histograms))
