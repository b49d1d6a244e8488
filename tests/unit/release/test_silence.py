"""Warnings and logging are off in the thread that works on protected rows, and in no other."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from voile.release.silence import silenced

LOGGER = logging.getLogger("model")


def meanwhile(act: Callable[[], Any]) -> Any:
    """What `act` gives in another thread while this one is silent; it began before."""
    begin, done, found = threading.Event(), threading.Event(), []

    def other() -> None:
        begin.wait(60)
        found.append(act())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with silenced():
        begin.set()
        assert done.wait(60)
    thread.join()
    return found[0]


def heard_warning(text: str) -> bool:
    """Whether a warning that is an error is one."""
    try:
        warnings.warn(text, stacklevel=1)
    except UserWarning:
        return True
    return False


def test_warnings_are_off_inside_and_on_again_outside() -> None:
    with silenced():
        assert not heard_warning("inside")  # pytest makes errors of warnings
        np.log(np.zeros(1))
    assert heard_warning("outside")


def test_logging_is_off_inside_and_on_again_outside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with silenced():
        with silenced():
            LOGGER.critical("a protected value is above two")
        LOGGER.log(1000, "louder")
        LOGGER.handle(LOGGER.makeRecord("model", 50, "f", 1, "straight", (), None))
    assert not caplog.records
    LOGGER.warning("outside")
    assert caplog.messages == ["outside"]


def test_other_threads_still_warn_and_log(caplog: pytest.LogCaptureFixture) -> None:
    def act() -> bool:
        LOGGER.error("from elsewhere")
        return heard_warning("from elsewhere")

    assert meanwhile(act)
    assert caplog.messages == ["from elsewhere"]


def test_filters_another_thread_copied_during_a_silence_ignore_nothing_afterwards() -> None:
    """Old: what it saved in the middle of a silence was "ignore everything", and it came back."""
    kept = meanwhile(lambda: (saved := warnings.catch_warnings(), saved.__enter__())[0])
    kept.__exit__(None, None, None)
    assert heard_warning("afterwards")


@pytest.mark.parametrize("action", ["error", "always"])
def test_changed_filters_of_another_thread_do_not_end_a_silence(action: Any) -> None:
    begin, changed, end = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        begin.wait(60)
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter(action)
            changed.set()
            end.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    with warnings.catch_warnings(record=True) as heard:
        with silenced():
            begin.set()
            assert changed.wait(60)
            assert not heard_warning("while filters are another thread's")
            end.set()
            thread.join()
            assert not heard_warning("after it brought back its own")
        assert not heard


def test_restoring_an_older_filter_list_does_not_end_a_silence() -> None:
    """Another thread leaves its `catch_warnings`, and brings back a list without our filter."""
    program = """if True:
        import threading, warnings
        from voile.release.silence import silenced
        warnings.simplefilter("error")
        began, end = threading.Event(), threading.Event()
        def other():
            with warnings.catch_warnings():
                began.set(); end.wait(60)
        thread = threading.Thread(target=other); thread.start(); began.wait(60)
        with silenced():
            end.set(); thread.join()
            warnings.warn("inside")
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_scikit_learn_hands_filters_on_to_its_workers() -> None:
    """It makes them again from their texts; in threads of a silent one they are as silent."""
    from sklearn.utils.parallel import Parallel, delayed

    with silenced():
        assert not any(Parallel(2, backend="threading")(delayed(heard_warning)("x") for _ in "ab"))
    assert all(Parallel(2, backend="threading")(delayed(heard_warning)("x") for _ in "ab"))


def test_repeated_silences_leave_one_filter() -> None:
    with warnings.catch_warnings():
        for _ in range(3):
            with silenced():
                warnings.simplefilter("ignore")
        length = len(warnings.filters)
        warnings.simplefilter("error")
        warnings.simplefilter("ignore")
        assert len(warnings.filters) <= length + 1


def test_a_process_forked_by_another_thread_is_not_silenced() -> None:
    def act() -> int:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # nothing of pytest may run in here
            said = os.fdopen(write, "w")
            LOGGER.addHandler(logging.StreamHandler(said))
            LOGGER.error("from the child")
            said.flush()
            os._exit(0 if heard_warning("from the child") else 1)
        os.close(write)
        with os.fdopen(read) as heard:
            assert heard.read() == "from the child\n"
        return os.waitpid(child, 0)[1]

    assert meanwhile(act) == 0


def test_threads_started_by_a_model_are_silenced_with_it(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> bool:
        LOGGER.error("a protected value")
        return heard_warning("a protected value")

    def die() -> None:
        raise RuntimeError("a protected value")

    with silenced():
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(work).result()
        dying = threading.Thread(target=die)
        dying.start()
        dying.join()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_threads_a_model_keeps_warn_again_after_the_silence() -> None:
    with ThreadPoolExecutor(1) as pool:
        with silenced():
            assert not pool.submit(heard_warning, "inside").result()
        assert pool.submit(heard_warning, "outside").result()
