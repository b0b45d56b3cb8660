"""A process that is told to end while it starts."""

import signal
import sys

import pytest

from optimist.server.api import ending_in_order


def test_a_signal_whose_exception_is_lost_is_remembered(monkeypatch: pytest.MonkeyPatch):
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: lost.append(one.exc_type))

    class Told:
        def __del__(self) -> None:  # what is raised here goes no further, as in callbacks of compiled code
            signal.raise_signal(signal.SIGTERM)

    with ending_in_order() as told:
        assert not told.is_set()
        Told()
        assert lost == [SystemExit]
        assert told.is_set()


def test_a_signal_ends_the_process_at_once():
    with pytest.raises(SystemExit) as ended, ending_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 0
