"""Runs the trials of a simulation in processes, and shows how far they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed

from optimist.metrics.threads import one_thread
from optimist_client.errors import FixError
from optimist_client.progress import counted

Done = TypeVar("Done")


class Runner:
    """Runs work in parallel and shows its progress on stderr, from the first piece on."""

    def __init__(self, jobs: int | None, progress: bool) -> None:
        if jobs == 0:
            raise FixError("jobs: expected a number of processes, or -1 for as many as there are cores; got 0")
        self._jobs = jobs
        self._is_shown = progress

    def run(self, what: str, work: Sequence[Callable[[], Done]]) -> list[Done]:
        """The results of all pieces of work, in their order. The pieces run in any order."""
        done: dict[int, Done] = {}
        parallel: Any = Parallel(n_jobs=self._jobs, return_as="generator_unordered")
        # Each piece computes on one thread. Where joblib runs them in threads of this process, the end of a piece must
        # not give more threads to the others.
        with one_thread(), counted(what, len(work), wanted=self._is_shown) as step:
            for index, result in parallel(delayed(_numbered)(index, piece) for index, piece in enumerate(work)):
                done[index] = result
                step()
        return [done[index] for index in range(len(work))]


def _numbered(index: int, piece: Callable[[], Done]) -> tuple[int, Done]:
    return index, piece()
