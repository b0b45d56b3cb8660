"""A script that executes the given program, which then gets SIGTERM when the process that started it dies.

    python dies_with_parent.py PARENT_PID PROGRAM ARGUMENT…

A program of its own and no `preexec_fn`: running Python between fork and exec is unsafe in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main() -> None:
    """Ask the kernel for the signal (Linux only), then become the program."""
    parent, program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    # The parent may have died before the kernel was asked.
    if os.getppid() != int(parent):
        sys.exit(f"process {parent} died while it started {program}")
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
