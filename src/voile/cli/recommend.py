"""`voile recommend`: learn the item side once, then recommend and explain for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from voile.app.commands.recommend import ExplainRecommendation, Recommend, TrainRecommender
from voile.cli.commands import command_line, formerly
from voile.cli.explain import exit_with_status, print_explained, print_preview
from voile.cli.output import print_facts

if TYPE_CHECKING:
    from voile.app.explain_rows import PreviewResult
    from voile.app.recommend.handler import RecommendationResult, TrainedResult

TRAIN_EPILOG = """\
Examples:

  voile budget open log.db users --unit user --dataset "shop 2026" --epsilon 6 --delta 1e-6
  --parallel

  voile recommend train items.csv interactions.csv --account users --epsilon 2 --delta 1e-6
  --output recommender --preview

  voile recommend train items.csv interactions.csv --account users --epsilon 2 --delta 1e-6
  --output recommender
"""
RECOMMEND_EPILOG = "Example: voile recommend list recommender interactions.csv --user 42"
EXPLAIN_EPILOG = """\
Examples:

  voile recommend explain recommender interactions.csv --user 42 --page why.html   (for user 42)

  voile recommend explain recommender interactions.csv --user 42 --group-by genre

  voile recommend explain recommender interactions.csv --user 42 --audience others --group-by genre
  --top 2 --account users --epsilon 1

  voile recommend explain recommender interactions.csv --audience others --group-by genre
  --account users --epsilon 0.5 --delta 1e-7   (importance over all users)
"""

app = typer.Typer(
    help="Train a recommender once; what users see about themselves is then free.",
    no_args_is_help=True,
)


def _show_trained(result: TrainedResult | PreviewResult, *, as_json: bool) -> None:
    from voile.app.recommend.handler import TrainedResult

    if not isinstance(result, TrainedResult):
        print_preview(result, as_json=as_json)
        return
    charges, new = result.charges, result.new
    facts = {
        "recommender": str(result.folder),
        "users": result.users,
        "items": result.items,
        "head": result.head,
        "charges": list(charges) if as_json else _charges(charges, new),
        **({"replayed": not new} if as_json else {}),
        "guarantee": result.guarantee.to_dict() if as_json else str(result.guarantee),
        "checkpoint": str(result.kept),
    }
    print_facts(facts, as_json=as_json)


def _charges(charges: Sequence[str], new: Sequence[str]) -> str:
    old = [charge for charge in charges if charge not in new]
    again = f"answered before, not charged again: {', '.join(old)}" if old else ""
    return "; ".join(filter(None, (", ".join(new), again)))


def _show_answer(result: RecommendationResult | PreviewResult, *, as_json: bool) -> None:
    from voile.app.recommend.handler import RecommendationResult

    if not isinstance(result, RecommendationResult):
        print_preview(result, as_json=as_json)
        return
    from voile.views.tables import recommendations_table

    own = result.to_herself
    table = recommendations_table(result.explained.explanation) if own else None
    print_explained(result, as_json=as_json, table=table)
    exit_with_status(result, as_json=as_json)


app.command("train", epilog=TRAIN_EPILOG)(command_line(TrainRecommender, _show_trained))
app.command("list", epilog=RECOMMEND_EPILOG)(command_line(Recommend, _show_answer))
app.command("recommend", hidden=True)(
    command_line(Recommend, _show_answer, bring=formerly("recommend recommend", "recommend list"))
)
app.command("explain", epilog=EXPLAIN_EPILOG)(command_line(ExplainRecommendation, _show_answer))
