"""Recommenders that are paid for once, from interactions to the page that a user sees.

- learn the item side, charged and on record: `train`, before it `preview_training`
- keep it: `save_recommender`, `load_recommender` give a `TrainedRecommender`
- ask it something: a `RecommendationSpec` says what, about whom and toward whom; `answer` gives it
  to the user herself for free and to others charged, on record; before it `preview`
"""

from voile.app.commands.recommend import Audience
from voile.app.recommend.artefact import (
    TrainedRecommender,
    check_place,
    load_recommender,
    save_recommender,
)
from voile.app.recommend.handler import answer, preview
from voile.app.recommend.specification import SCORES, ProfileLevel, RecommendationSpec
from voile.app.recommend.training import TrainingTerms, preview_training, train

__all__ = [
    "SCORES",
    "Audience",
    "ProfileLevel",
    "RecommendationSpec",
    "TrainedRecommender",
    "TrainingTerms",
    "answer",
    "check_place",
    "load_recommender",
    "preview",
    "preview_training",
    "save_recommender",
    "train",
]
