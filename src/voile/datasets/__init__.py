"""Data: files of your own and invented hospitals.

Read a file:
    `read_table` gives raw values by column; a `voile.core.schema.Schema` reads them. Of protected
    records `read_protected_table` does so without ever telling what one of them holds.

Invent data whose truth is known:
    `clinic_federation` gives a `ClinicFederation` with its `risk` and public reference rows.
"""

from voile.datasets.clinic import ClinicFederation, Dataset, clinic_federation, risk
from voile.datasets.tables import read_protected_table, read_table

__all__ = [
    "ClinicFederation",
    "Dataset",
    "clinic_federation",
    "read_protected_table",
    "read_table",
    "risk",
]
