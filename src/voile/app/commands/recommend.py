"""Commands about recommenders: train one, recommend with it, and say why."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import (
    Command,
    RecordFiles,
    SavedFiles,
    caller_field,
    custodian_field,
)


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
    """Learn from INTERACTIONS how items of CATALOGUE go together, with user-level privacy.

    Two releases are charged: popularity, and the Gram matrix of the popular items, or a network
    that is trained on them. A run that was broken off between them is continued by the same
    command, without --fresh, and pays for nothing twice.

    >>> TrainRecommender.read(
    ...     {"catalogue": "items.csv", "interactions": "lines.csv", "account": "users"}
    ...     | {"epsilon": 2.0, "delta": 1e-6, "folder": "recommender", "model": "mf"}
    ... ).model
    'mf'
    """

    account: str = custodian_field("Which account pays: one over users.", example="users")
    epsilon: float = caller_field("Of both releases together.", example=2.0)
    delta: float = caller_field("Of both releases together.", example=1e-6)
    folder: Path = custodian_field(
        "Where the recommender goes.", example="recommender", option="--output", metavar="DIR"
    )
    model: str = custodian_field(
        "moments or mf (in closed form); ncf or autoencoder (networks by DP-SGD; the account needs "
        "Rényi orders); or what an installed package adds.",
        default="moments",
        example="mf",
    )
    fresh: bool = caller_field("Pay for new moments, even if there are some.", default=False)
    preview: bool = caller_field(
        "Say what it would cost and be like; charge nothing.", default=False
    )
    caller: str = custodian_field("Who asks; written down.", default="custodian", option="--by")


class _Recommender(Command):
    model: Path = custodian_field(
        "Folder that `voile recommend train` wrote.",
        example="recommender",
        option="",
        metavar="RECOMMENDER",
    )


class _AskRecommender(SavedFiles, RecordFiles, _Interactions, _Recommender):
    count: int = caller_field("How many recommendations.", default=10, ge=1)
    caller: str = custodian_field("Who asks; written down.", default="user", option="--by")


class Recommend(_AskRecommender):
    """Recommend items to a user from her own history: free, on record, for her alone."""

    user: str = custodian_field("Whom: an identifier of INTERACTIONS.", example="42")


class ExplainRecommendation(_AskRecommender):
    """Say why: to the user herself at no cost, to others charged to her account.

    Toward others, items of a history are refused, because they are the history.
    """

    user: str | None = custodian_field(
        "Whom; all users together if not given.", default=None, example="42"
    )
    to: str = custodian_field("herself (free) or others (charged).", default="herself")
    by_what: str = caller_field(
        "items of her history, or a kind of labels: genre.", default="items", example="genre"
    )
    top: int | None = caller_field("Toward others: name this many labels only.", default=None, ge=1)
    account: str | None = custodian_field("Toward others: which account pays.", default=None)
    epsilon: float | None = caller_field("Toward others: of this release.", default=None)
    delta: float = caller_field("Toward others: of this release; none with --top.", default=0.0)
    level: str = caller_field(
        "Toward others: aggregate (groups of labels) or detailed.", default="detailed"
    )
    fresh: bool = caller_field("Pay again for new noise.", default=False)
    preview: bool = caller_field(
        "Say what it would cost and be like; charge nothing.", default=False
    )
    page: Path | None = custodian_field(
        "A page for the user herself (.html).", default=None, metavar="FILE"
    )
