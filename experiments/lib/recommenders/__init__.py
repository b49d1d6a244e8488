"""Recommenders in experiments: public collections, models without privacy, ways to judge."""
