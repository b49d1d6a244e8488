"""Who shows a result: views register here, so that results need not know them.

A result names its kind in `view`. The kinds of voile are registered when `voile` is imported;
anybody else's come from entry points of the group `voile.views`, named after the kind. Neither is
loaded before something is shown.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # part of `import voile`, which does without `typing`
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, Protocol

    class Viewable(Protocol):
        """A result that says what kind of thing it is."""

        @property
        def view(self) -> str: ...


GROUP = "voile.views"
_places: dict[str, str] = {}


def register(kind: str, place: str) -> None:
    """Show results of a kind with the function at `module:name`, which takes the result."""
    _places[kind] = place


def find_view(kind: str) -> Callable[..., Any] | None:
    """What shows results of a kind; None if nothing does."""
    if kind in _places:
        module, _, name = _places[kind].partition(":")
        found: Callable[..., Any] = getattr(import_module(module), name)
        return found
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=kind):
        return point.load()  # type: ignore[no-any-return]
    return None


def render_html(result: Viewable) -> str:
    """A result as HTML; as the plain text of its `repr` where no view knows its kind."""
    view = find_view(result.view)
    if view is not None:
        return str(view(result))
    from html import escape

    return f'<pre style="white-space: pre-wrap">{escape(repr(result))}</pre>'


def write_page(result: Viewable, path: Path, *, mode: int = 0o644) -> Path:
    """Write a result as a page, whole or not at all."""
    from voile.core.atomic_file import replace_file

    return replace_file(path, render_html(result).encode(), mode=mode)


def draw_picture(result: Viewable, ending: str) -> bytes:
    """A result as a picture: `png`, `svg` or `pdf`."""
    from voile.core.errors import InvalidInput

    kind = f"picture of {result.view}"
    view = find_view(kind)
    if view is None:
        raise InvalidInput(f"no view draws a {kind}")
    drawn: bytes = view(result, ending)
    return drawn
