"""Which threads have the processors, and the interpreter, first."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

BEHIND = 10
"""Nice value of threads that nobody waits for."""
SWITCH = 0.001
"""Seconds after which a thread that computes in Python lets another one go on; by default 5 ms. Whoever reads or writes
to a connection waits for that after each time."""


def stay_behind() -> None:
    """Leave the processors to other threads, from now on: for one that seldom holds the interpreter, which others would
    wait for."""
    with contextlib.suppress(AttributeError, OSError):  # only Linux has priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BEHIND)


def answer_soon() -> None:
    """Have the threads of this process wait for one another no longer than needed."""
    sys.setswitchinterval(SWITCH)
