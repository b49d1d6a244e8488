"""The receipt of a release, issued when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from voile.app.explain import ReleasedExplanation, ReleaseService
from voile.app.explain.files import folder_of_receipts, write_receipts
from voile.app.output_check import check_outputs, files_of
from voile.core.errors import InvalidInput
from voile.python.file_names import file_named


@dataclass(frozen=True, eq=False)
class ReleaseReceipt:
    """Proves that an explanation is on record, to anyone with the explanation and the policy.

    Args:
        service: issues it from the open records; signs first, if need be.
        released: what it is about.
    """

    service: ReleaseService
    released: ReleasedExplanation

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it, for its owner only: who reads it can check guesses of what was asked.

        Of several records that were explained one by one, a folder with a receipt for each.
        """
        file = file_named(path, "receipt")
        check_outputs([file], files_of(self.service.vault.place), [folder_of_receipts(file)])
        write_receipts(self.service, self.released, file)
        return file if len(self.released.entries) == 1 else folder_of_receipts(file)

    def __bytes__(self) -> bytes:
        receipts = self.service.receipts(self.released)
        if len(receipts) > 1:
            raise InvalidInput(
                f"{len(receipts)} records were explained, each with a receipt: `save` writes them"
            )
        return bytes(receipts[0])

    def __repr__(self) -> str:
        records = ", ".join(map(str, self.released.records))
        return f"<receipt for record {records} of the log {self.service.vault.log.origin!r}>"
