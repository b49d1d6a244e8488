"""Pictures of explanations. Every function returns a matplotlib figure and changes nothing else.

- which features matter most: `bar`
"""

from voile.plots.bars import bar

__all__ = ["bar"]
