"""What `voile explain` does once it is clear what is asked, and where it is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from voile.cli.explain_output import leave, print_explained, print_preview, speed
from voile.cli.interrupts import PAID, interruptible
from voile.cli.output import ask_before_overwriting
from voile.cli.rounds import say
from voile.core.errors import VoileError

if TYPE_CHECKING:
    from voile.app.artefact import Artefact
    from voile.app.custody import Custody, Place
    from voile.app.explain import ExplanationSpec
    from voile.app.explain.outputs import Outputs
    from voile.app.workspace import WorkspaceFile


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What is said about this one call, whatever is released."""

    data: str
    by: str
    purpose: str
    fresh: bool
    preview: bool
    yes: bool
    as_json: bool

    @property
    def told(self) -> dict[str, Any]:
        """What goes on record, and whether new noise is paid for."""
        return {"caller": self.by, "purpose": self.purpose, "fresh": self.fresh}


def answer(
    spec: ExplanationSpec,
    place: Place,
    outputs: Outputs,
    call: Call,
    *,
    artefact: Artefact | None = None,
    workspace: WorkspaceFile | None = None,
) -> None:
    """Check, compute, charge and record; then write and print.

    Args:
        artefact: what `spec.model` names, if somebody has opened it already.
        workspace: where all of this stands, if in a workspace.
    """
    from voile.app.custody import open_custody_at
    from voile.app.explain import ReleaseService, build_release, load_inputs
    from voile.app.explain.assessed import claims_behind
    from voile.app.explain.fitting import Affordability
    from voile.app.explain.inputs import find_artefact
    from voile.app.output_check import files_of

    kept_files = [*files_of(place), *([] if workspace is None else [workspace.path])]
    outputs.check([*spec.files, *kept_files])
    if not call.preview:
        ask_before_overwriting(outputs.files, yes=call.yes)
    modules = None if workspace is None else workspace.folder
    made = artefact or find_artefact(spec.model)
    inputs = load_inputs(spec, made, speed(), modules=modules)
    given = inputs.read_rows(call.data)
    outputs.check_rows(given.count, spec.protect)
    _log.info("%d rows were read", given.count)
    with open_custody_at(place, signing=None) as custody:
        if workspace is not None:
            from voile.app.workspace import check_ledger

            check_ledger(workspace, custody)
        outputs.check_signing(custody.keeper)
        if custody.keeper is None:
            say(f"no {place.policy}: nothing is signed, and there will be no receipt")
        service, payer = ReleaseService(custody), spec.account
        paying = None if payer is None else custody.account(payer)
        release = build_release(inputs, paying, given.count)
        affordability = Affordability(inputs, paying, release, given.count)
        if call.preview:
            found = service.preview(release, given, payer=payer, caller=call.by, fresh=call.fresh)
            print_preview(affordability.told(found), given.count, as_json=call.as_json)
            return
        shown = outputs.page or outputs.pages
        claims = claims_behind(custody, release, made, modules) if shown else None
        with interruptible(PAID, lambda: outputs.files):
            with affordability.named(), _signed_if_refused(custody):
                explained = service.answer(release, given, payer=payer, **call.told)
            explained = replace(inputs.told(explained), assessed=claims)
            _log.info("answered, with %d charge(s)", len(explained.charges))
            kept = custody.keep()
            signed = custody.covers(max(explained.records))
            written = outputs.write(service, explained, signed=signed)
    print_explained(explained, spec.top, written, kept, place.policy, as_json=call.as_json)
    leave(written, kept, as_json=call.as_json)


@contextmanager
def _signed_if_refused(custody: Custody) -> Iterator[None]:
    """A refusal is on record as well, and a command that ends leaves nothing unsigned."""
    try:
        yield
    except BaseException:
        with suppress(VoileError):  # of a database that is gone; told already
            if custody.unsigned:
                kept = custody.keep()
                if kept.published is None or kept.missing:
                    say(f"checkpoint: {kept}")
        raise
