"""Recommenders that are paid for once, from interactions to the page that a user sees.

- learn the item side, charged and on record: `train`, before it `preview_training`
- keep it: `save_recommender`, `load_recommender`; of a federation, `open_recommender`
- ask it something: a `RecommendationSpec` says what, about whom and toward whom; `answer` gives it
  to the user herself for free and to others charged, on record; before it `preview`
"""

from voile.app.commands.recommend import Audience
from voile.app.recommend.handler import answer, build, open_recommender, preview
from voile.app.recommend.specification import SCORES, ProfileLevel, RecommendationSpec
from voile.app.recommend.training import TrainingTerms, preview_training, train
from voile.app.trained_recommender import (
    TrainedRecommender,
    check_place,
    load_recommender,
    save_recommender,
)

__all__ = [
    "SCORES",
    "Audience",
    "ProfileLevel",
    "RecommendationSpec",
    "TrainedRecommender",
    "TrainingTerms",
    "answer",
    "build",
    "check_place",
    "load_recommender",
    "open_recommender",
    "preview",
    "preview_training",
    "save_recommender",
    "train",
]
