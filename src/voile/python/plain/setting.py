"""What an explainer holds: a model that was read, its background, and the method."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.trees import PATH_DEPENDENT, is_tree
from voile.core.choices import member
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.optional import optional
from voile.core.row_note import Note
from voile.core.schema import Rows
from voile.datasets.frames import ColumnArrays, row_count, take_rows
from voile.python.plain.answers import Scale, final_of, refitted, source_of
from voile.python.plain.codec import CellColumn, NumberColumn, told_of
from voile.python.plain.engines import (
    BATCH_ROWS,
    Attribution,
    Engine,
    GameEngine,
    LearnedEngine,
    TreeEngine,
    silent,
)
from voile.python.plain.learning import train
from voile.python.plain.methods import Choice, Method, Question, choose, choose_paths
from voile.python.plain.models import Chosen, ReadModel, read_model
from voile.python.plain.pipelines import SplitPipeline
from voile.python.progress import Progress, check_progress, say, seconds_to_ask, shown

if TYPE_CHECKING:
    from voile.python.view import ExplanationView

BACKGROUND_ROWS: Final = 1_000
_FEW_EVALUATIONS: Final = 2_000
"""Of which no model takes two seconds."""
_TIMED_SHARE: Final = 20
_SECONDS_BESIDES: Final = 1e-6
"""Of mixing rows, for each evaluation."""
_FEW_TIMED: Final = 2
_MANY_TIMED: Final = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be said about an explanation; see `voile.python.explainer.Explainer`."""

    method: str | None = None
    output: Chosen = None
    output_names: Sequence[str] | None = None
    scale: str | None = None
    background_rows: int | None = BACKGROUND_ROWS
    evaluations: int = 20_000
    seed: int = 0
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.background_rows is not None:
            _check_count("background_rows", self.background_rows)
        _check_count("evaluations", self.evaluations)
        check_progress(self.progress)

    @cached_property
    def wanted_scale(self) -> Scale | None:
        return None if self.scale is None else member(Scale, self.scale, "scale")


OTHER_OPTIONS: Final = tuple(
    each.name for each in fields(Options) if each.name not in ("method", "output")
)


def _check_count(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{field}: expected a whole number from 1, found {value!r}")


@dataclass(frozen=True, eq=False)
class Setting:
    """A model, a method and what goes with every explanation.

    Args:
        model: as it was read.
        choice: the method and its engine.
        options: what was said.
        background: how many rows there are; None without a background.
        notes: what must travel with the values.
    """

    model: ReadModel
    choice: Choice
    options: Options
    background: int | None
    notes: tuple[Note, ...] = ()

    def explain(self, given: Any) -> ExplanationView:
        """Rows as people have them."""
        from voile.python.view import ExplanationView

        codec = self.model.codec
        cells = codec.read(given, "rows")
        if not len(next(iter(cells.values()))):
            raise InvalidInput("rows: expected at least one row to explain, found none")
        found = self._attribution(codec.encode_cells(cells))
        explanation = Explanation(
            values=found.values,
            base_values=found.base,
            feature_names=tuple(cells),
            output_names=self.model.output_names,
            data=codec.numbers(cells),
            standard_errors=found.errors,
            notes=(*self.notes, *found.notes),
        )
        return ExplanationView(
            explanation, display=self._display(given, cells), method=self.choice.method.value
        )

    def _attribution(self, rows: Rows) -> Attribution:
        engine, progress = self.choice.engine, self.options.progress
        seconds = expected_seconds(self.choice, rows) if progress is not False else 0.0
        title = f"explaining {len(rows):,} row{'s' if len(rows) > 1 else ''} ({self.choice.method})"
        with shown(title, engine.work(rows), seconds, progress) as tell:
            return engine.explain(rows, tell)

    def _display(self, given: Any, cells: ColumnArrays) -> Any:
        """The rows as people wrote them, unless that is what the numbers say."""
        if hasattr(given, "iloc") and getattr(given, "ndim", 1) == 2:
            own = {str(name): place for place, name in enumerate(given.columns)}
            return given.iloc[:, [own[name] for name in cells]]
        columns = self.model.codec.columns
        if not any(isinstance(column, CellColumn) or _is_truth(column) for column in columns):
            return None
        return np.column_stack([_as_objects(column) for column in cells.values()])

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.model.output_names[:6]))
        more = ", …" if len(self.model.output_names) > 6 else ""
        rows = (
            "no background" if self.background is None else f"{self.background:,} background rows"
        )
        return "\n  ".join(
            [
                f"Explainer of {self.model.source.title} over {rows}",
                f"method: {self.choice.method} ({self.choice.why})",
                f"explains: {shown}{more} ({self.choice.scale})",
                "protects nobody: for people in the rows, pass protect=",
            ]
        )


def _is_truth(column: Any) -> bool:
    return isinstance(column, NumberColumn) and column.dtype.kind == "b"


def _as_objects(cells: NDArray[Any]) -> NDArray[Any]:
    """Times as Python's own."""
    return (
        cells.astype("datetime64[us]").astype(object)
        if cells.dtype.kind == "M"
        else (cells.astype(object))
    )


# --- from a model and a background ----------------------------------------------------------------


def setting_for(model: Any, background: Any, options: Options) -> Setting:
    """Read the model, thin the background, choose the method."""
    if background is None:
        return _over_paths(model, options)
    with told_of("background"):
        total = row_count(background)
    if not total:
        raise InvalidInput("background: expected at least one row, found none")
    some = thinned(background, total, options)
    read = read_model(model, some, output=options.output, output_names=options.output_names)
    question = _question(read, read.codec.encode(some, "background"), background, options)
    choice = choose(question, options.method)
    used = total if choice.method in (Method.LINEAR, Method.LEARNED) else row_count(some)
    if used < total:
        say(
            f"background thinned from {total:,} to {used:,} rows drawn at random; "
            "background_rows=None takes all of them",
            options.progress,
        )
    return Setting(read, choice, options, used, _notes(choice, used, total))


def _over_paths(model: Any, options: Options) -> Setting:
    """Trees without a background: absent columns follow the paths of the training rows."""
    source = source_of(model)
    width = _width(source.model) if is_tree(refitted(final_of(source.model))) else None
    if width is None or options.method not in (None, "tree", "trees"):
        raise InvalidInput(
            "background: pass typical rows, X_train for example; only trees over numbers are "
            "explained without"
        )
    names = source.names or tuple(f"feature {place}" for place in range(width))
    example: Any = np.zeros((1, width))
    if source.names is not None:
        example = optional("pandas", extra="explain").DataFrame(example, columns=list(names))
    read = read_model(model, example, output=options.output, output_names=options.output_names)
    choice = choose_paths(read, read.codec.encode(example), options.wanted_scale)
    return Setting(read, choice, options, None, (PATH_DEPENDENT, *_notes(choice, 0, 0)))


def _width(model: Any) -> int | None:
    found = getattr(model, "n_features_in_", None)
    for name in ("num_features", "num_feature"):
        count = getattr(model, name, None)
        found = count() if found is None and callable(count) else found
    return None if found is None else int(found)


def thinned(background: Any, total: int, options: Options) -> Any:
    """Rows drawn without replacement, in their order."""
    most = options.background_rows
    if most is None or total <= most:
        return background
    draw = np.random.default_rng(options.seed)
    return take_rows(background, sorted(draw.choice(total, most, replace=False).tolist()))


def _question(read: ReadModel, rows: Rows, background: Any, options: Options) -> Question:
    def everything() -> Rows:
        return read.codec.encode(background, "background")

    def learn(parts: SplitPipeline) -> LearnedEngine:
        return train(parts, parts.transform(everything()), options.seed, options.progress)

    return Question(
        model=read,
        background=rows,
        scale=options.wanted_scale,
        evaluations=options.evaluations,
        seed=options.seed,
        progress=options.progress,
        everything=everything,
        learn=learn,
    )


def _notes(choice: Choice, used: int, total: int) -> tuple[Note, ...]:
    notes = []
    if choice.scale in (Scale.LOG_ODDS, Scale.SCORE):
        notes.append(f"contributions to the {choice.scale}, not to the probability")
    if used < total:
        notes.append(f"background: {used:,} of {total:,} rows, drawn at random")
    return tuple(notes)


def expected_seconds(choice: Choice, rows: Rows) -> float:
    """How long explaining takes, about: a few evaluations are timed."""
    engine = choice.engine
    if isinstance(engine, GameEngine):
        evaluations = engine.work(rows)
        if evaluations < _FEW_EVALUATIONS:
            return 0.0
        most = min(BATCH_ROWS, evaluations // _TIMED_SHARE)
        tiled = np.resize(engine.background, (most, engine.background.shape[1]))
        predict = engine.parts.inner.predict
        own = evaluations * _SECONDS_BESIDES
        return own + seconds_to_ask(lambda count: predict(tiled[:count]), evaluations, most)
    if not isinstance(engine, TreeEngine):
        return 0.0
    if engine.reader.is_large:
        return (1 + len(rows) / 70) * engine.row_seconds
    if len(rows) <= 2 * _MANY_TIMED:
        return 0.0
    few, many = (_timed(engine, rows[:count]) for count in (_FEW_TIMED, _MANY_TIMED))
    return few + (many - few) / (_MANY_TIMED - _FEW_TIMED) * len(rows)


def _timed(engine: Engine, rows: Rows) -> float:
    start = time.perf_counter()
    engine.explain(rows, silent)
    return time.perf_counter() - start
