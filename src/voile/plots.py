"""The public name of `voile.views.plots`: pictures of explanations and federations."""

from voile.views.plots import *  # noqa: F403
from voile.views.plots import __all__ as __all__
