"""A process that is told to end while it starts, and a child of `optimist serve` that is before it is ready."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Thread

import pytest
from prometheus_client import CollectorRegistry, Counter
from pydantic_core import SchemaValidator, core_schema

from optimist.records import CannotStart
from optimist.server.api import ending_in_order
from optimist.server.children import spawned
from optimist.server.supervised import ServiceProcess
from tests.support.processes import is_alive, until

SLOW = """import time
while True:
    time.sleep(1.0)
"""


def place_child(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "started_child.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def child_of(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceProcess:
    place_child(code, folder, monkeypatch)
    restarts = Counter("restarts", "Restarts.", registry=CollectorRegistry())
    return ServiceProcess("child", "child", "started_child", {}, grace=86_400.0, restarts=restarts)


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceProcess:
    """One that never becomes ready, and may take a day to end in order."""
    return child_of(SLOW, tmp_path, monkeypatch)


def test_a_child_that_is_killed_each_time_before_it_is_ready_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with child_of("import os\nos.kill(os.getpid(), 9)", tmp_path, monkeypatch) as child:
        child.start()
        with pytest.raises(CannotStart, match=r"the child died 5 times as it started: .* was killed by SIGKILL"):
            child.ready.result(60)


def test_a_child_says_why_it_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with child_of("""print('{"error": "no such device"}')""", tmp_path, monkeypatch) as child:
        child.start()
        with pytest.raises(CannotStart, match="the child cannot begin: no such device"):
            child.ready.result(60)


def test_a_child_that_is_not_ready_is_not_waited_for(child: ServiceProcess):
    child.start()
    until(lambda: child.pid)
    stopping = Thread(target=child.stop, daemon=True)
    stopping.start()
    until(lambda: not stopping.is_alive())
    assert not is_alive(child.pid)
    assert not child.ready.done()


def test_a_child_that_was_not_started_is_stopped(child: ServiceProcess):
    child.stop()
    child.start()
    child.stop()
    assert child.pid == 0


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


def test_a_signal_in_the_middle_of_making_a_class_ends_the_process_in_order():
    class Told:
        def __repr__(self) -> str:
            signal.raise_signal(signal.SIGTERM)
            return "told"

    with pytest.raises(SystemExit) as ended, ending_in_order():
        SchemaValidator(core_schema.literal_schema([Told()]))
    assert ended.value.code == 0


def test_a_child_that_runs_already_is_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place_child(SLOW, tmp_path, monkeypatch)
    restarts = Counter("restarts", "Restarts.", registry=CollectorRegistry())
    with spawned("started_child", "child") as begun:
        run = "child", "child", "started_child", {}
        child = ServiceProcess(*run, grace=86_400.0, restarts=restarts, begun=begun)
        child.start()
        until(lambda: child.pid)
        assert child.pid == begun.pid
        child.stop()
        assert not is_alive(begun.pid)
