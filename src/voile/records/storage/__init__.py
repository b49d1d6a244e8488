"""Durable records: many threads and processes, one writer at a time, nothing half done.

- say what is stored: `Table`, `Part`
- open it: `open_storage`; which file that would be: `file_of`
- change it: `Storage.submit(command)`, where a command is any function of a `Transaction`
- read much of it without making writers wait: `Storage.read_snapshot(question)`, where a question
  is any function of a `Reader`
"""

from voile.records.storage.opening import Part, file_of, open_storage, storage_on
from voile.records.storage.session import Migrator, Reader, Session, Transaction
from voile.records.storage.storage import Command, Storage
from voile.records.storage.tables import Table

__all__ = [
    "Command",
    "Migrator",
    "Part",
    "Reader",
    "Session",
    "Storage",
    "Table",
    "Transaction",
    "file_of",
    "open_storage",
    "storage_on",
]
