"""The scorer of `optimist serve`: a child process, started again when it dies. Its torch is not this process's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optimist.api.board import Board
from optimist.insight.metrics import SCORER_RESTARTS
from optimist.insight.shared import SCORER
from optimist.server.kept import Kept
from optimist.settings import Settings
from optimist_client.errors import FixError

GRACE = 10.0
"""Seconds in which it must have ended when told to; a little more than it gives itself."""


class ScorerProcess(Kept):
    """A scorer, which begins when Redis answers; the board says whether it is at work."""

    def __init__(self, redis_url: str, settings: Settings, board: Board) -> None:
        self._board = board
        passed_on = settings.model_dump(include={"device", "warm_bytes", "log_format", "metrics"})
        order = {"redis_url": redis_url, **passed_on}
        super().__init__("scorer", SCORER, "optimist.scoring", order, grace=GRACE, restarts=SCORER_RESTARTS)

    def heard(self, word: dict[str, Any]) -> None:
        """Note for all API processes whether it goes its rounds."""
        self._board.hear(word["at_work"])

    def ended(self) -> None:
        """Note that no scorer is at work."""
        self._board.hear(False)

    def refused(self, reason: str) -> Exception:
        """Its device is not here."""
        return FixError(reason)


@contextmanager
def scorer_process(redis_url: str, settings: Settings, board: Board) -> Iterator[None]:
    """A scorer that has found its device, for as long as the context; it is ended in order before that is left.

    When it dies it is started again, soon where it had lived long: what it held is derived from what Redis holds.
    Raises FixError where its device is not here, CannotStart where it cannot even begin.
    """
    scorer = ScorerProcess(redis_url, settings, board)
    try:
        scorer.start()
        scorer.ready.result()
        yield
    finally:
        scorer.stop()
