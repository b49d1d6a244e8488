"""Experiments: one folder each, run with `python -m experiments.NAME`; write `results/*.json`."""
