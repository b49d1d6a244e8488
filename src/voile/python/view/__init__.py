"""What explainers return: an explanation with the manners of `shap.Explanation`."""

from voile.python.view.view import ExplanationView

__all__ = ["ExplanationView"]
