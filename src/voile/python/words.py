"""Errors in the words of Python: what the command line calls `--model-origin` is an argument."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from voile.core.errors import VoileError

_OPTION: Final = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: (?:FILE|LABEL|DIR|TEXT)\b)?")
_ELSEWHERE: Final = re.compile(r" \(under \[releases[^)]*\)")
_OTHERWISE: Final = {
    "--yes": "insist=True",
    "--background-origin public": 'background_origin="public"',
    " (voile.models.wrapped)": (
        ". If you know that it treats them one by one: treats_rows_independently=True"
    ),
}


@contextmanager
def in_python_words() -> Iterator[None]:
    """What is raised inside names arguments, not options; nothing else about it changes."""
    try:
        yield
    except VoileError as error:
        error.args = tuple(
            in_python(each) if isinstance(each, str) else each for each in error.args
        )
        raise


def in_python(text: str) -> str:
    """A message with arguments in place of options.

    >>> in_python("leave out --model-origin: an artefact records it")
    'leave out model_origin=: an artefact records it'
    """
    for words, ours in _OTHERWISE.items():
        text = text.replace(words, ours)
    text = _ELSEWHERE.sub("", text)
    return _OPTION.sub(lambda found: found[1].replace("-", "_") + "=", text)
