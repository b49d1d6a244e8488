"""Learned explainers."""
