"""Data from outside: `read_table` reads a file of raw values by column."""

from voile.datasets.tables import read_table

__all__ = ["read_table"]
