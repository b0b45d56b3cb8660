"""Starting a process of the service; the scorer before what the service itself is made of is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from optimist.insight import shared

SCORER = "optimist.scoring"
"""The module that runs as a scorer."""


def spawned(module: str, name: str, files: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A new process that runs a module, and waits for its order; name: by which it counts (`insight.shared`).

    files: the descriptors that it inherits. Raises OSError where it cannot be started.
    """
    return subprocess.Popen(
        # -P: what lies in the working directory is no module of ours.
        [sys.executable, "-P", "-m", module],
        env={**os.environ, shared.NAME: name},
        pass_fds=files,
        # Keeps Ctrl-C from the child: the service stops it when its turn has come.
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@contextmanager
def begun_scorer() -> Generator[subprocess.Popen[bytes]]:
    """A scorer that imports what it needs meanwhile, which takes it the longest of all. It is killed in the end."""
    with spawned(SCORER, shared.SCORER) as process:
        try:
            yield process
        finally:
            process.kill()
