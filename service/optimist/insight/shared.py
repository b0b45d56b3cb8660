"""Metrics of a service of several processes. Each process writes files that all can read, so that any can show all.

This is the multiprocess mode of prometheus_client. A file is named for the process's job, not for its id: a restarted
process continues the counters, and there are no more files than processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from prometheus_client import REGISTRY, CollectorRegistry, Metric, PlatformCollector, ProcessCollector, values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the files' directory. The processes that this one starts inherit it."""
NAME = "PROMETHEUS_MULTIPROC_NAME"
"""The variable with the name of a process: "scorer", "api-1", …; no two that run at the same time have the same."""
PREFIX = "optimist-metrics-"
SERVICE, API, SCORER = "service", "api-", "scorer"
"""Process names: a process that only starts others, the prefix of processes that answer requests, and the scorer."""


@contextmanager
def sharing(name: str) -> Generator[None]:
    """Let this process and those that it starts share their metrics; before `insight.metrics` is imported."""
    # In memory where there is such a place: a full disk must not end a process that counts something.
    memory = "/dev/shm"
    parent = memory if os.access(memory, os.W_OK) else gettempdir()
    remove_left(Path(parent))
    with TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as directory:
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.environ |= {DIRECTORY: directory, NAME: name}
        try:
            yield
        finally:
            del os.environ[DIRECTORY], os.environ[NAME]
            os.close(descriptor)


def remove_left(parent: Path) -> None:
    """Remove the directories of services that were killed: nobody holds their locks."""
    for abandoned in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, held by a service that runs, or gone
            if time.time() - abandoned.stat().st_mtime < 60.0:  # a service that starts has not locked its own yet
                continue
            descriptor = os.open(abandoned, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(abandoned)
            finally:
                os.close(descriptor)


def join() -> None:
    """Keep the metrics of this process, which are made after this, where it was told to; else in its memory."""
    if (name := os.environ.get(NAME)) is not None:
        values.ValueClass = values.MultiProcessValue(partial(str, name))
        (directory() / f"{name}.pid").write_text(str(os.getpid()))


def directory() -> Path:
    """Directory in which the processes of this service share their counts."""
    return Path(os.environ[DIRECTORY])


@cache
def registry() -> CollectorRegistry:
    """The registry that `/metrics` shows: of all processes of this service, or of this one if it shares with none."""
    if NAME not in os.environ:
        return REGISTRY
    every = CollectorRegistry()
    MultiProcessCollector(every, str(directory()))
    PlatformCollector(every)
    every.register(ProcessUsage(API, ""))
    every.register(ProcessUsage(SCORER, "scorer"))
    return every


class ProcessUsage(Collector):
    """Processor time, memory and files of each process whose name begins with `names`; `process` is its name."""

    def __init__(self, names: str, prefix: str) -> None:
        self._names = names
        self._prefix = prefix

    def collect(self) -> Iterable[Metric]:
        """Metrics of prometheus_client's ProcessCollector, which covers one process, for each process."""
        metrics: dict[str, Metric] = {}
        for file in sorted(directory().glob(f"{self._names}*.pid")):
            process, pid = file.stem, file.read_text()
            for metric in ProcessCollector(self._prefix, lambda pid=pid: pid, registry=None).collect():
                merged = metrics.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    merged.add_sample(sample.name, {"process": process}, sample.value)
        return metrics.values()
