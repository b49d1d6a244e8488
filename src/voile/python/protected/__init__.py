"""Explaining over protected rows: terms and prices first, then a charged release."""

from voile.python.protected.explainer import ProtectedExplainer

__all__ = ["ProtectedExplainer"]
