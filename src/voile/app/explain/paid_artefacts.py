"""Artefacts that are paid for once and then used for ever: a synthetic background, clusters.

Each is a release like any other (`PrivateHistograms`, `PrivateClusters`), about what the account
protects, and is obtained from the service: asking again gives the same artefact, at no cost.
"""

from __future__ import annotations

from typing import Any

from voile.app.explain.service import ReleaseService
from voile.core.schema import Schema
from voile.release import Clusters, PrivateClusters, PrivateHistograms, SyntheticBackground
from voile.release.feature_clusters import CLUSTERS

CUSTODIAN = "custodian"


def paid_synthetic_background(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    size: int = 1_000,
    caller: str = CUSTODIAN,
) -> SyntheticBackground:
    """Rows that anybody may see, made from protected records and charged to an account.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        size: see `voile.release.PrivateHistograms`, which `ReleaseService.obtain` takes as well.
    """
    release = PrivateHistograms(
        records,
        schema,
        protected=service.vault.account(account).protected,
        epsilon=epsilon,
        delta=delta,
        size=size,
    )
    subject = f"{release.name} of {size} rows"
    return service.obtain(release, payer=account, caller=caller, subject=subject)


def paid_clusters(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    count: int = CLUSTERS,
    caller: str = CUSTODIAN,
) -> Clusters:
    """Clusters of features for the aggregate level, found in protected records and charged.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        count: see `voile.release.PrivateClusters`.
    """
    release = PrivateClusters(
        records,
        schema,
        protected=service.vault.account(account).protected,
        epsilon=epsilon,
        delta=delta,
        count=count,
    )
    subject = f"at most {count} {release.name}"
    return service.obtain(release, payer=account, caller=caller, subject=subject)
