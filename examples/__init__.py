"""Whole stories, each in one file: `python -m examples.credit_decision`."""
