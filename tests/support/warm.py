"""The project's processes from a warm start: forks of a process that has imported what they import, a second each.

`Popen` is `subprocess.Popen`, and starts anything. What it starts by one of `STARTS` is a fork of the
warm process: the same program, with its own command line, environment, files, session and exit code. It is a child of
whoever asked, as always: it is orphaned at once, and the kernel gives it to the nearest ancestor that adopts orphans.
`optimist serve` starts its scorer and its API processes in the same way, from a warm process of its own, which is
forked before anything of it runs.

Warm processes have no threads and no state, but for the metrics of Prometheus, which each process makes again where it
shares them. A process whose variables that are read before Python runs, or as libraries are loaded, are not those of
the warm process starts cold, and so does everything where there is no Linux.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

CLI = [sys.executable, "-m", "optimist.cli"]
STARTS = [CLI, *([sys.executable, "-P", "-m", f"optimist.{module}"] for module in ("scoring", "server.worker"))]
"""How the commands begin that can be forks."""
EARLY = ("PYTHON", "LD_", "OMP_")
"""How the names of variables begin that are read before Python runs, or as libraries are loaded."""
IMPORTED = (
    *("fastapi_offline", "hiredis", "httptools", "imagesize", "prometheus_client.multiprocess", "pydantic_settings"),
    *("redis.asyncio.cluster", "rich.progress", "rich.table", "scipy.linalg", "threadpoolctl", "torch"),
    *("typer.rich_utils", "uvicorn.lifespan.on", "uvicorn.main", "uvicorn.protocols.http.httptools_impl", "uvloop"),
    *("optimist.api.app", "optimist.commands", "optimist.estimation", "optimist.experiments", "optimist.metrics"),
    *("optimist.scoring.scorer", "optimist.server.service", "optimist.store", "optimist_client.models.exports"),
)
ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of <linux/prctl.h>."""
MESSAGE_BYTES = 2**17
COMMAND_BYTES = 2**13
"""Room for the command lines of forks, which they write over the one of the warm process."""


@dataclass(frozen=True)
class Order:
    """What a fork is to become. files: the numbers that the files which come along get."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    own_session: bool
    files: Sequence[int]

    @property
    def module(self) -> str:
        return self.command[self.command.index("-m") + 1]


class Popen(subprocess.Popen[Any]):
    """A child process: a fork of the warm process where it can be."""

    # The one step that begins a process; all others are those of any child.
    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *rest: Any,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        if preexec_fn is not None or not _can_be_warm(args, environment):
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_, own_session, _ = rest
        streams = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        order = Order([*args], environment, str(cwd or os.getcwd()), own_session, [0, 1, 2, *pass_fds])
        self.pid = Warm.of_this_process().ask(order, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """What comes of `optimist ARGUMENTS` in a process of its own."""
    command = [*CLI, *map(str, arguments)]
    with Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _can_be_warm(command: Any, environment: Mapping[str, str]) -> bool:
    def early(every: Mapping[str, str]) -> dict[str, str]:
        return {name: every[name] for name in every if name.startswith(EARLY) and name != "PYTHONPATH"}

    # Numerics would have threads by now, which a fork lacks. Programs such as `tests.chaos` start real commands.
    if sys.platform != "linux" or os.environ.get("OMP_NUM_THREADS") != "1" or not isinstance(command, list):
        return False
    is_ours = any(command[: len(start)] == start for start in STARTS)
    # What coverage measures, it has seen begin.
    is_measured = any(name.startswith("COVERAGE_PROCESS_") for name in environment)
    return is_ours and early(environment) == early(os.environ) and not is_measured


class Warm:
    """A warm process, at the other end of a channel. It ends when that is closed, as it is when this process dies."""

    _own: Warm | None = None
    _process: subprocess.Popen[bytes] | None = None
    _starting = threading.Lock()

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._asking = threading.Lock()
        adopt_orphans()

    @classmethod
    def of_this_process(cls) -> Warm:
        """The one of this process, started when it is first asked for."""
        with cls._starting:
            if cls._own is None:
                own, other = _channel()
                command = [sys.executable, "-P", __file__, str(other.fileno()), " " * COMMAND_BYTES]
                with other:
                    # In a session of its own: Ctrl-C is for those that it forks.
                    cls._process = subprocess.Popen(
                        command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
                    )
                cls._own = cls(own)
            return cls._own

    @classmethod
    def process_id(cls) -> int | None:
        """Process id of the one of this process; None while it has started none."""
        return None if cls._process is None else cls._process.pid

    @classmethod
    def take(cls, channel: socket.socket) -> None:
        """Let the warm process at the other end of this be the one of this process."""
        cls._own = cls(channel)

    def ask(self, order: Order, files: Sequence[int]) -> int:
        """Process id of a new fork, which is a child of this process."""
        with self._asking:
            socket.send_fds(self._channel, [json.dumps(vars(order)).encode()], files)
            return int(self._channel.recv(MESSAGE_BYTES))


def adopt_orphans() -> None:
    """Have the processes that children of this one leave behind become its children."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def _channel() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _run(channel: socket.socket) -> None:
    """Fork at each order, until the channel is closed. In a fork, run what was ordered."""
    own = None
    order, files = _forked(channel)
    while order.module == "optimist.cli":
        own, other = _channel()
        if os.fork():
            other.close()
            break
        # The warm process of the one that was ordered, which has none of its files.
        os.setsid()
        for file in (own.detach(), *files):
            os.close(file)
        own = None
        order, files = _forked(other)
    _take_files(order.files, files, own)
    if own is not None:
        Warm.take(own)
        subprocess.Popen = Popen
    if order.own_session:
        os.setsid()
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    _write_command(order.command)
    _share_metrics_where_told()
    np.random.seed()
    if "OPTIMIST_METRICS" in order.environment:  # the options of commands name the metrics there are
        for name in [name for name in sys.modules if name.startswith("optimist.commands")]:
            del sys.modules[name]
    begin = [] if "-P" in order.command else [order.directory]
    brought = order.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = begin + [path for path in brought if path not in ("", *sys.path)]
    sys.argv = list(order.command[order.command.index(order.module) :])
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)


def _take_files(numbers: Sequence[int], files: Sequence[int], own: socket.socket | None) -> None:
    """Give these numbers to files of this process, and close all others but its channel."""
    beyond = 1 + max([*numbers, *files, 0 if own is None else own.fileno()])
    for number, moved in zip(numbers, [fcntl.fcntl(file, fcntl.F_DUPFD, beyond) for file in files], strict=True):
        os.dup2(moved, number)
    kept = {*numbers, -1 if own is None else own.fileno()}
    for file in map(int, os.listdir("/proc/self/fd")):
        if file not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(file)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))


def _share_metrics_where_told() -> None:
    """Make the metrics again, in files, as soon as this process shares them: at once, or once it begins to."""
    from optimist.insight import metrics, shared

    def make_again() -> None:
        before = {name: one for name, one in vars(metrics).items() if isinstance(one, MetricWrapperBase)}
        for one in [*REGISTRY._collector_to_names]:
            if isinstance(one, MetricWrapperBase):
                REGISTRY.unregister(one)
        importlib.reload(metrics)
        for name, one in before.items():
            one.__dict__ = vars(vars(metrics)[name])  # whoever has imported it has the new one

    @contextlib.contextmanager
    def sharing(name: str) -> Generator[None]:
        with begin(name):
            make_again()
            yield

    begin, shared.sharing = shared.sharing, sharing
    if shared.NAME in os.environ:
        make_again()


def _write_command(command: Sequence[str]) -> None:
    """Let the system show this as the command line of this process."""
    # Fields 48 and 49 of proc_pid_stat(5), of which the first two are left out.
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    shown = b"\0".join(word.encode() for word in command)
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def _forked(channel: socket.socket) -> tuple[Order, list[int]]:
    """Fork at each order. In the fork, and in no other process, returns it and the files that came along."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 64)
        if not message:
            os._exit(0)
        reader, writer = os.pipe()
        if (between := os.fork()) == 0:
            between = os.getpid()
            if pid := os.fork():
                os.write(writer, str(pid).encode())
                os._exit(0)
            while os.getppid() == between:
                time.sleep(0.0005)
            for file in (reader, writer, channel.detach()):
                os.close(file)
            return Order(**json.loads(message)), files
        os.waitpid(between, 0)
        channel.send(os.read(reader, MESSAGE_BYTES))
        for file in (reader, writer, *files):
            os.close(file)


def _end(code: int) -> None:
    """End as Python would, but without freeing the objects: in a fork, that copies all pages of the warm process."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    from optimist.commands.app import locations

    for location in locations().values():
        importlib.import_module(location.partition(":")[0])
    from optimist_client.wire import build_models

    build_models()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    gc.freeze()
    try:
        _run(socket.socket(fileno=int(sys.argv[1])))
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise  # Python prints such a code
        _end(ended.code or 0)
    _end(0)
