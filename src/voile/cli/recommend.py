"""`voile recommend`: learn the item side once, then recommend and explain for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.explain_output import leave, print_explained, print_preview
from voile.cli.interrupts import PAID, interruptible
from voile.cli.options import CallerOption, YesOption
from voile.cli.output import JsonOption, ask_before_overwriting, print_facts
from voile.cli.rounds import steps_line

if TYPE_CHECKING:
    from rich.table import Table

    from voile.app.custody import Place
    from voile.app.explain.outputs import Outputs
    from voile.app.recommend import RecommendationSpec
    from voile.core.explanation import Explanation

TRAIN_EPILOG = """\
Examples:

  voile budget open log.db users --unit user --dataset "shop 2026" --epsilon 6 --delta 1e-6
  --parallel

  voile recommend train items.csv interactions.csv --account users --epsilon 2 --delta 1e-6
  --output recommender --preview

  voile recommend train items.csv interactions.csv --account users --epsilon 2 --delta 1e-6
  --output recommender
"""
RECOMMEND_EPILOG = "Example: voile recommend recommend recommender interactions.csv --user 42"
EXPLAIN_EPILOG = """\
Examples:

  voile recommend explain recommender interactions.csv --user 42 --page why.html   (for user 42)

  voile recommend explain recommender interactions.csv --user 42 --by-what genre

  voile recommend explain recommender interactions.csv --user 42 --to others --by-what genre
  --top 2 --account users --epsilon 1

  voile recommend explain recommender interactions.csv --to others --by-what genre
  --account users --epsilon 0.5 --delta 1e-7   (importance over all users)
"""

app = typer.Typer(
    help="Recommenders: the item side is paid for once, what a user sees about herself is free.",
    no_args_is_help=True,
)
ModelArgument = Annotated[
    Path, typer.Argument(metavar="RECOMMENDER", help="Folder that `voile recommend train` wrote.")
]
InteractionsArgument = Annotated[
    str,
    typer.Argument(
        metavar="INTERACTIONS", help="Protected: user,item[,rating][,time] as CSV or Parquet."
    ),
]
UserOption = Annotated[str, typer.Option("--user", help="Whom: an identifier of INTERACTIONS.")]
CountOption = Annotated[int, typer.Option("--count", min=1, help="How many recommendations.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="DATABASE",
        help="With ledger and log: a file or a URL; log.db of this folder if not given. Keys and "
        "policy lie beside it, or for a URL in this folder, if not given.",
    ),
]
ReplayKeyOption = Annotated[
    Path | None, typer.Option("--replay-key", metavar="FILE", help="Key of questions.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The log's signing key.")
]
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Whom to trust when checking.")
]
SavedOption = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="FILE", help="Save as .voile, .parquet or .json; receipt too."
    ),
]
ReceiptOption = Annotated[
    Path | None, typer.Option("--receipt", metavar="FILE", help="Where the receipt goes instead.")
]


@app.command("train", epilog=TRAIN_EPILOG)
def train(
    catalogue: Annotated[
        Path,
        typer.Argument(
            help="Public: item[,title] and a column for each kind of labels (genre: Drama|War)."
        ),
    ],
    interactions: InteractionsArgument,
    account: Annotated[str, typer.Option(help="Who pays: an account over users.")],
    epsilon: Annotated[float, typer.Option(help="Of both releases together.")],
    delta: Annotated[float, typer.Option(help="Of both releases together.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where the recommender goes.")],
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for new moments, even if there are some.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what it would cost and be like; charge nothing.")
    ] = False,
    by: CallerOption = "custodian",
    database: DatabaseOption = None,
    replay_key: ReplayKeyOption = None,
    key: KeyOption = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from INTERACTIONS how items of CATALOGUE go together, with user-level privacy.

    Two releases are charged: popularity, and the Gram matrix of the popular items. A run that was
    broken off between them is continued by the same command, without --fresh, and pays for nothing
    twice.
    """
    from voile.app.custody import open_custody_at
    from voile.app.explain import ReleaseService
    from voile.app.recommend import (
        TrainingTerms,
        charged_since,
        check_place,
        preview_training,
        records_so_far,
        save_recommender,
    )
    from voile.app.recommend import train as learn
    from voile.recommenders import read_catalogue, read_interactions

    check_place(output)
    found = read_interactions(interactions, read_catalogue(catalogue, name=catalogue.stem))
    terms = TrainingTerms(account=account, epsilon=epsilon, delta=delta, caller=by, fresh=fresh)
    with open_custody_at(_place(database, replay_key, key, policy), signing=None) as custody:
        service = ReleaseService(custody)
        if preview:
            told = preview_training(service, found, terms)
            print_preview(told, len(found), as_json=as_json, of="users")
            return
        before = records_so_far(service)
        with interruptible(PAID):
            trained = save_recommender(learn(service, found, terms, progress=steps_line()), output)
            kept = custody.keep()
        new = charged_since(service, trained.charges, before)
    facts = {
        "recommender": str(output),
        "users": len(found),
        "items": len(found.catalogue),
        "head": len(trained.moments.head),
        "charges": list(trained.charges) if as_json else _charges(trained.charges, new),
        **({"replayed": not new} if as_json else {}),
        "guarantee": trained.guarantee.to_dict() if as_json else str(trained.guarantee),
        "checkpoint": str(kept),
    }
    print_facts(facts, as_json=as_json)


def _charges(charges: Sequence[str], new: Sequence[str]) -> str:
    old = [charge for charge in charges if charge not in new]
    again = f"answered before, not charged again: {', '.join(old)}" if old else ""
    return "; ".join(filter(None, (", ".join(new), again)))


@app.command("recommend", epilog=RECOMMEND_EPILOG)
def recommend(
    model: ModelArgument,
    interactions: InteractionsArgument,
    user: UserOption,
    count: CountOption = 10,
    by: CallerOption = "user",
    output: SavedOption = None,
    receipt: ReceiptOption = None,
    database: DatabaseOption = None,
    replay_key: ReplayKeyOption = None,
    key: KeyOption = None,
    policy: PolicyOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recommend items to a user from her own history: free, on record, for her alone."""
    from voile.app.explain.outputs import Outputs
    from voile.app.recommend import SCORES, RecommendationSpec

    spec = RecommendationSpec(caller=by, user=user, by=SCORES, count=count)
    place = _place(database, replay_key, key, policy)
    outputs = Outputs(output, receipt, private=True)
    _answer(spec, _Call(model, interactions, place, outputs, yes, as_json))


@app.command("explain", epilog=EXPLAIN_EPILOG)
def explain(
    model: ModelArgument,
    interactions: InteractionsArgument,
    user: Annotated[
        str | None, typer.Option("--user", help="Whom; all users together if not given.")
    ] = None,
    to: Annotated[str, typer.Option(help="herself (free) or others (charged).")] = "herself",
    by_what: Annotated[
        str, typer.Option(help="items of her history, or a kind of labels: genre.")
    ] = "items",
    top: Annotated[
        int | None, typer.Option(min=1, help="Toward others: name this many labels only.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="Toward others: who pays.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Toward others: of this release.")] = None,
    delta: Annotated[
        float, typer.Option(help="Toward others: of this release; none with --top.")
    ] = 0.0,
    level: Annotated[
        str, typer.Option(help="Toward others: aggregate (groups of labels) or detailed.")
    ] = "detailed",
    fresh: Annotated[bool, typer.Option("--fresh", help="Pay again for new noise.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what it would cost and be like; charge nothing.")
    ] = False,
    count: CountOption = 10,
    by: CallerOption = "user",
    output: SavedOption = None,
    receipt: ReceiptOption = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A page for the user herself (.html).")
    ] = None,
    database: DatabaseOption = None,
    replay_key: ReplayKeyOption = None,
    key: KeyOption = None,
    policy: PolicyOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say why: to the user herself at no cost, to others charged to her account.

    Toward others, items of a history are refused, because they are the history.
    """
    from voile.app.explain.outputs import Outputs
    from voile.app.recommend import RecommendationSpec, Toward
    from voile.core.errors import InvalidInput

    spec = RecommendationSpec(
        caller=by,
        user=user,
        toward=to,  # type: ignore[arg-type]
        by=by_what,
        count=count,
        top=top,
        account=account,
        epsilon=epsilon,
        delta=delta,
        level=level,  # type: ignore[arg-type]
        fresh=fresh,
    )
    if page is not None and (spec.toward is Toward.OTHERS or page.suffix != ".html"):
        raise InvalidInput("--page writes an .html file for the user herself, and for nobody else")
    place = _place(database, replay_key, key, policy)
    outputs = Outputs(output, receipt, private=spec.toward is Toward.HERSELF)
    _answer(spec, _Call(model, interactions, place, outputs, yes, as_json, preview, page))


@dataclass(frozen=True)
class _Call:
    """What is said about this one call, whatever is asked."""

    model: Path
    interactions: str
    place: Place
    outputs: Outputs
    yes: bool
    as_json: bool
    preview: bool = False
    page: Path | None = None

    def check_outputs(self) -> None:
        """Refuse what cannot or must not be written, and ask about what is there already."""
        from voile.app.output_check import check_outputs, files_of
        from voile.app.recommend import check_not_inside

        interactions = [] if self.interactions == "-" else [Path(self.interactions)]
        needed = [*files_of(self.place), *interactions]
        self.outputs.check(needed)
        check_outputs(self._pages, [*needed, *self.outputs.files])
        check_not_inside(self.model, self.files)
        if not self.preview:
            ask_before_overwriting(self.files, yes=self.yes)

    @property
    def files(self) -> list[Path]:
        """What is written."""
        return [*self.outputs.files, *self._pages]

    @property
    def _pages(self) -> list[Path]:
        return [] if self.page is None else [self.page]


def _answer(spec: RecommendationSpec, call: _Call) -> None:
    """Check, compute, charge and record; then write and print."""
    from voile.app.custody import open_custody_at
    from voile.app.explain import ReleaseService
    from voile.app.recommend import Toward, answer, load_recommender, preview, write_page
    from voile.recommenders import read_interactions

    call.check_outputs()
    outputs, as_json = call.outputs, call.as_json
    trained = load_recommender(call.model)
    found = read_interactions(call.interactions, trained.catalogue)
    with open_custody_at(call.place, signing=None) as custody:
        outputs.check_signing(custody.keeper)
        service = ReleaseService(custody)
        if call.preview:
            users = len(found) if spec.user is None else 1
            told = preview(service, trained, found, spec)
            print_preview(told, users, as_json=as_json, of="users")
            return
        with interruptible(PAID, lambda: call.files):
            explained = answer(service, trained, found, spec)
            kept = custody.keep()
            signed = custody.covers(max(explained.records))
            written = outputs.write(service, explained, signed=signed)
            if call.page is not None:
                page = write_page(explained.explanation, call.page)
                written = replace(written, files={**written.files, "page": [str(page)]})
    table = _lines(explained.explanation) if spec.toward is Toward.HERSELF else None
    policy = call.place.policy
    print_explained(explained, spec.top, written, kept, policy, as_json=as_json, table=table)
    leave(written, kept, as_json=as_json)


def _lines(explanation: Explanation) -> Table:
    """A line for each recommendation: its score, and what adds most to it."""
    from rich.table import Table

    from voile.app.recommend import reasons

    explained = explanation.feature_names != ("score",)
    table = Table("recommendation", "score", *(["because of"] if explained else []))
    for output, name in enumerate(explanation.output_names):
        base = explanation.base_values[0, output]
        score = f"{base + explanation.values[0, :, output].sum():.3g}"
        table.add_row(
            name, score, *([", ".join(reasons(explanation, output))] if explained else [])
        )
    return table


def _place(
    database: str | None, replay_key: Path | None, key: Path | None, policy: Path | None
) -> Place:
    from voile.app.custody import check_named, usual_place

    check_named(key, policy)
    return usual_place(database=database, signing_key=key, policy=policy, replay_key=replay_key)
