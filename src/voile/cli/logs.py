"""`--verbose` and `--log-file`: what a command does, step by step, with times.

Both may stand anywhere on the command line. What is written is what voile says of its own work:
steps, files, warnings, refusals, errors with the place in the code. Never rows or explanations,
and of a database's address no password.
"""

from __future__ import annotations

import logging
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VERBOSE, LOG_FILE = "--verbose", "--log-file"
SAID = "voile.said"
"""Of lines that were printed already, and are for the file alone."""
_LINE = "%(asctime)s %(levelname)s %(message)s"
_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]*@")
_log = logging.getLogger("voile.cli")


@dataclass(frozen=True)
class LogSettings:
    """Where steps are told, besides what is printed anyway."""

    verbose: bool = False
    file: Path | None = None


def taken_out(arguments: Sequence[str]) -> tuple[list[str], LogSettings]:
    """The arguments without these two options, and what they said; nothing after `--`."""
    left, verbose, file = list[str](), False, None
    words = iter(arguments)
    for word in words:
        if word == "--":
            left += [word, *words]
        elif word == VERBOSE:
            verbose = True
        elif word.startswith(f"{LOG_FILE}="):
            file = Path(word.partition("=")[2])
        elif word == LOG_FILE and (name := next(words, None)) is not None:
            file = Path(name)
        else:
            left.append(word)
    return left, LogSettings(verbose, file)


@contextmanager
def logged(settings: LogSettings, arguments: Sequence[str]) -> Iterator[None]:
    """Steps of a command go where somebody asked for them, while it runs."""
    from voile.core.errors import InvalidInput

    root = logging.getLogger("voile")
    handlers: list[logging.Handler] = [logging.NullHandler()]  # else Python prints by itself
    if settings.verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].addFilter(lambda record: record.name != SAID)
    if settings.file is not None:
        from voile.app.output_check import check_outputs

        check_outputs([settings.file], [])
        try:
            handlers.append(logging.FileHandler(settings.file, encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"{settings.file}: cannot be written: {error.strerror}") from error
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_LINE))
        root.addHandler(handler)
    before = root.level
    if len(handlers) > 1:
        root.setLevel(logging.DEBUG)
    began = time.monotonic()
    _log.info("voile %s", _PASSWORD.sub(r"\1...@", shlex.join(arguments)))
    try:
        yield
    finally:
        _log.info("ended after %.1f s", time.monotonic() - began)
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
