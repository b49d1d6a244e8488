"""`federate`: several parties train one model; in this process for a trial, or across machines."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain
from voile.app.commands.federate import Federate, NewFederation, WriteReport
from voile.core.errors import InvalidInput
from voile.python.round_bars import ProgressBars
from voile.python.saying import say
from voile.python.words import in_python_words
from voile.records.vault import POLICY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from voile.app.artefact import Artefact
    from voile.app.explain import ReleasedExplanation
    from voile.app.federate.expectation import FederationPreview
    from voile.core.guarantee import Guarantee
    from voile.python.view import ExplanationView
    from voile.records.audit_log import Receipt

Tell: TypeAlias = Callable[[str], None]
"""Told in words what is being done."""
_AGREEMENT: Final = "federation.toml"
_TRIAL: Final = "trial"
_JUDGED: Final = ("figure", "low", "high", "baseline")
_PAGE: Final = b'class="voile"'
"""At the top of each page that voile writes."""
_TOP: Final = 100


def federate(
    parties: Any,
    *,
    label: str | None = None,
    schema: Any = None,
    epsilon: float | None = None,
    delta: float | None = None,
    folder: str | PathLike[str] | None = None,
    preview: bool = False,
    **more: Any,
) -> FinishedFederation | FederationPreview:
    """Train one model across parties whose rows stay apart, with privacy for each row.

    Without `preview=True` every party is charged (epsilon, delta). What the label may be is
    declared by the schema and never read off the rows. Nothing in a protected row raises: a value
    that cannot be read is missing. Each party answers as it would on a machine of its own, with
    its own budget and log.

    Args:
        parties: the rows of each by name, `{"north": df1, "south": "south.csv"}`; a folder with a
            CSV or Parquet file of each; or a `federation.toml`, which says all of the rest.
        label: the column to predict; the label of the schema if left out.
        schema: a `Schema`, a declaration such as `{"age": (18, 100)}`, or a TOML file.
        epsilon, delta: promised to each row of each party.
        folder: where agreement, budgets and results are kept. The same call goes on there, and
            gives a complete result again. A temporary folder if left out.
        preview: say what to expect and what each party will pay; nothing is charged or written.
        more: `model` ("statistics" or "network"), `secure` (the server learns sums only), `classes`
            or `target_range` of a label that the schema does not declare, `held_out` (public rows
            to measure on), `reference`, `rounds`, `relation`, `name`; `insist` to continue despite
            warnings; `superlink`, an address, for parties on other machines; `progress=False` to
            say nothing.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> def patients(count):
    ...     age = draw.uniform(18, 90, count)
    ...     return {"age": age, "sick": np.where(age > draw.uniform(18, 90, count), "yes", "no")}
    >>> run = federate({"north": patients(900), "south": patients(700)}, label="sick",
    ...                schema={"age": (18, 90), "sick": ["no", "yes"]}, epsilon=2, delta=1e-5,
    ...                progress=False)
    >>> run.model.predict({"age": [20, 89]}).tolist()
    ['no', 'yes']
    >>> run.explain({"age": [20, 89]}).shape
    (2, 1)
    """
    control = {"preview": preview, "superlink": more.pop("superlink", None)}
    control["insist"] = more.pop("insist", False)
    tell = say if more.pop("progress", True) else _nothing
    given = {"label": label, "schema": schema, "epsilon": epsilon, "delta": delta, **more}
    stated = {name: value for name, value in given.items() if value is not None}
    agreed = _agreement(parties)
    if agreed is not None:
        _check_agreed(agreed, stated, folder)
        return _run({"config": agreed, **control}, agreed.parent, tell)
    with _place(folder, tell, preview=preview) as (place, name):
        new = {**name, "parties": parties, **stated, "folder": place}
        return _run({"config": NewFederation.read(new), **control}, place, tell)


# --- where it is kept -----------------------------------------------------------------------------


def _agreement(parties: Any) -> Path | None:
    """The file that says all of it, if that is what was given."""
    if not isinstance(parties, str | PathLike):
        return None
    path = Path(parties).absolute()
    inside = path / _AGREEMENT
    return inside if inside.is_file() else path if path.suffix == ".toml" else None


def _check_agreed(agreed: Path, stated: Mapping[str, Any], folder: Any) -> None:
    """What is stated beside a file must be what it says."""
    if folder is not None:
        raise InvalidInput("folder: server.toml says where results go; leave it out")
    if stated:
        from voile.app.federate.files import read_agreement
        from voile.app.federate.founding import check_stated

        check_stated(read_agreement(agreed), stated)


@contextmanager
def _place(folder: Any, tell: Tell, *, preview: bool) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and the name of a federation that has none from its folder."""
    if folder is not None:
        yield Path(folder).absolute(), {}
    elif preview:  # nothing is written there
        yield Path(tempfile.gettempdir(), f"voile-{os.urandom(8).hex()}"), {"name": _TRIAL}
    else:
        place = Path(tempfile.mkdtemp(prefix="voile-federation-"))
        removal = partial(_remove, place, os.getpid())
        atexit.register(removal)
        try:
            yield place, {"name": _TRIAL}
        except KeyboardInterrupt:
            atexit.unregister(removal)
            raise
        finally:
            with suppress(OSError):  # refused before anything was written
                place.rmdir()
        tell(
            f"budgets, logs and result: {place}, which is removed when Python ends. Keep them with "
            "folder=...; without, each call is charged to new budgets"
        )


def _remove(place: Path, owner: int) -> None:
    if os.getpid() == owner:  # not when a copy of the process ends
        shutil.rmtree(place, ignore_errors=True)


def _nothing(_line: str) -> None:
    """Nobody listens."""


def _run(
    stated: Mapping[str, Any], place: Path, tell: Tell
) -> FinishedFederation | FederationPreview:
    from voile.app.federations import FederationResult

    with ProgressBars() as bars:
        context = Context(say=tell, interruptible=partial(_interruptible, place))
        if tell is not _nothing:
            context = replace(context, rounds=bars.rounds, steps=bars.steps)
        with in_python_words():
            result = handle(Federate.read(stated), context)
    if not isinstance(result, FederationResult):
        preview: FederationPreview = result
        return preview
    return FinishedFederation(result.artefact.absolute(), result.agreement)


@contextmanager
def _interruptible(
    place: Path, kept: str, _outputs: Callable[[], Sequence[Path]]
) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted: {kept}. Go on with the same call and folder={str(place)!r}")
        raise


# --- what comes of it -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FinishedFederation:
    """A model that parties have trained together, with what is promised about their rows.

    Using it is free: everything here follows from what was charged.

    Args:
        artefact: folder of what may be shown: the model, guarantees, figures, and signed logs.
        agreement: digest of what all parties have agreed on.
    """

    artefact: Path
    agreement: str

    @cached_property
    def _opened(self) -> Artefact:
        from voile.app.artefact import load_artefact

        return load_artefact(self.artefact)

    @property
    def folder(self) -> Path:
        """Of the server: the artefact, its own log and keys."""
        return self.artefact.parent

    @property
    def policy(self) -> Path:
        """Whose signature counts, for `voile.verify`."""
        return self.folder / POLICY

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each row of each party."""
        return self._opened.guarantees[0]

    @property
    def parties(self) -> dict[str, int]:
        """How many rows each brought; public."""
        return dict(self._opened.settings["clients"])

    @property
    def quality(self) -> dict[str, dict[str, float]]:
        """How good it is: figure, 95 % interval, and what it is compared with, by what it is."""
        figures = self._opened.figures
        judged = figures.get("quality") or {"model": figures.get("charged_quality") or {}}
        found = next(iter(judged.values())).get("figures", {})
        return {name: {key: each[key] for key in _JUDGED} for name, each in found.items()}

    @property
    def alarms(self) -> tuple[str, ...]:
        """Why it should not be used as it is, if so."""
        return self._opened.alarms()

    @cached_property
    def model(self) -> PrivateModel:
        """The model: `predict`, `predict_proba`, `curves`."""
        return PrivateModel(self._opened)

    def explain(self, rows: Any, *, method: str | None = None, **more: Any) -> ExplanationView:
        """Explain rows at no cost: it follows from a model whose training was charged.

        Args:
            rows: a table, or one person. What is missing is filled in, and named.
            method: see `voile.app.commands.explain.Explain`; the closed formula of a model of
                curves, exact Shapley values of a network.
            more: other fields of that command.
        """
        from voile.python.view import ExplanationView

        _ = self.model
        columns = self._opened_columns(rows)
        stated = {"model": str(self.artefact), "data": columns, "method": method, **more}
        result = handle(
            Explain.read({name: value for name, value in stated.items() if value is not None}),
        )
        return ExplanationView(
            result.explained.explanation,
            display=_cells(columns),
            released=result.explained,
            receipt=partial(self._receipt, result.explained),
            method=method or self._usual_method,
        )

    @property
    def _usual_method(self) -> str:
        from voile.attribution.choosing import is_exact

        if self._opened.additive is not None:
            return "closed form"
        return "exact" if is_exact(len(self._opened.schema.features)) else "sampled"

    def report(self, path: str | PathLike[str] = "report.html", *, overwrite: bool = False) -> Path:
        """Write one page with the guarantee, the quality, and how to verify both.

        Args:
            overwrite: a page of voile is replaced anyway; another file only if this is set.
        """
        place = Path(path)
        known = place.is_file() and _PAGE in place.read_bytes()[:_TOP]
        stated = {"artefact": self.artefact, "output": place, "overwrite": overwrite or known}
        written: Path = handle(WriteReport.read(stated)).path
        return written

    def _receipt(self, explained: ReleasedExplanation) -> Receipt:
        from voile.records.vault import usual_place

        with Context().records(usual_place(self.artefact)) as service:
            return service.receipts(explained)[0]

    def _opened_columns(self, rows: Any) -> dict[str, NDArray[Any]]:
        from voile.datasets.frames import columns_of

        return columns_of(rows, self._opened.schema.feature_names)

    def __repr__(self) -> str:
        rows = sum(self.parties.values())
        shown = ", ".join(f"{name} {count:,}" for name, count in self.parties.items())
        return "\n".join(
            [
                *(f"Do not use it as it is. {line}" for line in self.alarms),
                str(self.guarantee),
                *(f"{name}: {_judged(each)}" for name, each in self.quality.items()),
                f"{rows:,} rows of {len(self.parties)} parties ({shown}); {self.artefact}",
            ]
        )


@dataclass(frozen=True, eq=False, repr=False)
class PrivateModel:
    """A model that was trained with privacy, as people of scikit-learn know one."""

    artefact: Artefact = field(repr=False)

    def __post_init__(self) -> None:
        _ = self.artefact.model  # what was trained may be something else

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The columns that it takes, in any order."""
        return self.artefact.schema.feature_names

    @property
    def classes_(self) -> NDArray[Any] | None:
        """The classes, in the order of `predict_proba`; None for a number."""
        import numpy as np

        from voile.core.schema import Categories

        label = self.artefact.schema.label
        domain = None if label is None else label.domain
        return np.array(domain.values) if isinstance(domain, Categories) else None

    def predict(self, rows: Any) -> NDArray[Any]:
        """The most likely class of each row, or its number, shape (n,)."""
        said, classes = self._said(rows), self.classes_
        found: NDArray[Any] = said[:, 0] if classes is None else classes[said.argmax(axis=1)]
        return found

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, classes)."""
        if self.classes_ is None:
            raise InvalidInput("this model predicts a number: use predict")
        return self._said(rows)

    @property
    def curves(self) -> dict[str, list[dict[str, Any]]]:
        """By feature, what each of its bins adds to the score, with the error from the noise.

        Features that are left out have no influence.
        """
        additive = self.artefact.additive
        if additive is None:
            raise InvalidInput("a network has no curves; look at explanations: run.explain(rows)")
        return {each["name"]: each["bins"] for each in additive.description()["features"]}

    def _said(self, rows: Any) -> NDArray[np.float64]:
        import numpy as np

        from voile.datasets.frames import columns_of

        columns = columns_of(rows, self.feature_names_in_)
        return np.asarray(self.artefact.predict(columns), dtype=np.float64)

    def __repr__(self) -> str:
        label = self.artefact.schema.label
        kind = "a sum of curves" if self.artefact.additive is not None else "a network"
        named = "" if label is None else f" of {label.name!r}"
        features = len(self.feature_names_in_)
        return f"{self.artefact.guarantees[0]}\n{kind}{named} over {features} features"


def _cells(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The rows as people wrote them."""
    import numpy as np

    return np.column_stack([np.asarray(each, dtype=object) for each in columns.values()])


def _judged(found: Mapping[str, float]) -> str:
    return (
        f"{found['figure']:.3g} (95 %: {found['low']:.3g} to {found['high']:.3g}; without a model: "
        f"{found['baseline']:.3g})"
    )
