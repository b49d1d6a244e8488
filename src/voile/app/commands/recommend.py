"""Commands about recommenders: train one, recommend with it, and say why."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from voile.app.commands.fields import (
    Command,
    RecordFiles,
    SavedFiles,
    caller_field,
    custodian_field,
    warn_renamed,
)


class Audience(StrEnum):
    """Who reads an explanation of a recommendation."""

    SELF = "self"
    """The user, about herself: free."""
    OTHERS = "others"
    """Anybody else: charged to the user's account, or refused."""

    @classmethod
    def _missing_(cls, value: object) -> Audience | None:
        if value != "herself":
            return None
        warn_renamed("audience 'herself'", "'self'")
        return cls.SELF


class _Interactions(Command):
    interactions: str = custodian_field(
        "Protected: user,item[,rating][,time] as CSV or Parquet.",
        example="interactions.csv",
        option="",
        metavar="INTERACTIONS",
    )


class _Catalogue(Command):
    catalogue: Path = custodian_field(
        "Public: item[,title] and a column for each kind of labels (genre: Drama|War).",
        example="items.csv",
        option="",
    )


class TrainRecommender(RecordFiles, _Interactions, _Catalogue):
    """Train a recommender on INTERACTIONS with user-level privacy.

    Charges two releases: popularity, and the Gram matrix of the popular items, or a network that
    is trained on them. If a run is interrupted, run the same command again without --redraw:
    nothing is paid for twice.

    >>> TrainRecommender.read(
    ...     {"catalogue": "items.csv", "interactions": "lines.csv", "account": "users"}
    ...     | {"epsilon": 2.0, "delta": 1e-6, "folder": "recommender", "model": "mf"}
    ... ).model
    'mf'
    """

    account: str = custodian_field("Account that pays; it must be over users.", example="users")
    epsilon: float = caller_field(
        "Of both releases together.", example=2.0, gt=0, allow_inf_nan=False
    )
    delta: float = caller_field("Of both releases together.", example=1e-6, gt=0, lt=1)
    folder: Path = custodian_field(
        "Folder for the recommender.", example="recommender", option="--output", metavar="DIR"
    )
    redraw: bool = caller_field(
        "Pay for new statistics, even if some exist.",
        default=False,
        formerly=("--fresh", "fresh"),
    )
    model: str = custodian_field(
        "moments or mf (in closed form); ncf or autoencoder (networks by DP-SGD; the account needs "
        "Rényi orders); or what an installed package adds.",
        default="moments",
        example="mf",
    )
    preview: bool = caller_field("Show cost and accuracy without charging anything.", default=False)
    caller: str = custodian_field(
        "Who asks; recorded in the log.", default="custodian", formerly=("--by",)
    )


class _Recommender(Command):
    model: Path = custodian_field(
        "Folder that `voile recommend train` wrote.",
        example="recommender",
        option="",
        metavar="RECOMMENDER",
    )


class _AskRecommender(SavedFiles, RecordFiles, _Interactions, _Recommender):
    count: int = caller_field("How many recommendations.", default=10, ge=1)
    caller: str = custodian_field(
        "Who asks; recorded in the log.", default="user", formerly=("--by",)
    )


class Recommend(_AskRecommender):
    """List recommendations for a user, from the user's own history: free, and recorded."""

    user: str = custodian_field("The user: an identifier in INTERACTIONS.", example="42")


class ExplainRecommendation(_AskRecommender):
    """Explain recommendations: free for the user, charged to the user's account for others.

    Others never see items of the history, because they reveal it.
    """

    user: str | None = custodian_field(
        "The user. Default: all users together.", default=None, example="42"
    )
    audience: Audience = custodian_field(
        "self (the user; free) or others (charged).",
        default=Audience.SELF,
        formerly=("--to", "to"),
    )
    group_by: str = caller_field(
        "items of the user's history, or a kind of labels, such as genre.",
        default="items",
        example="genre",
        formerly=("--by-what", "by_what"),
    )
    top: int | None = caller_field("For others: number of labels to name.", default=None, ge=1)
    account: str | None = custodian_field("For others: account that pays.", default=None)
    epsilon: float | None = caller_field(
        "For others: privacy cost of this release.",
        default=None,
        example=0.5,
        gt=0,
        allow_inf_nan=False,
    )
    delta: float = caller_field(
        "For others: delta of this release; none with --top.", default=0.0, ge=0, lt=1
    )
    level: str = caller_field(
        "For others: aggregate (groups of labels) or detailed.", default="detailed"
    )
    redraw: bool = caller_field(
        "Pay again for new noise.", default=False, formerly=("--fresh", "fresh")
    )
    preview: bool = caller_field("Show cost and accuracy without charging anything.", default=False)
    page: Path | None = custodian_field(
        "Save a page for the user (.html).", default=None, metavar="FILE"
    )
