"""The ledger of a plan: every request with its cost, and every answer, so that none is paid twice."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from optimist.databases import open_database
from optimist_client.chat import Call, Reply
from optimist_client.errors import FixError

_TABLES = 1
"""The version of the tables."""
CUT_OFF = "cut off"
"""The outcome of a request that was on its way when its process ended."""
_COUNTED = ("answered", "failed", "late", "refused", "paused", CUT_OFF)
_FILE = "answers.sqlite"


class UnansweredPrompt(NamedTuple):
    """A prompt that a model has not answered, and would not answer if it were asked again."""

    how: Literal["late", "refused"]
    seconds: float
    """The time until the answer."""
    error: str


class Tally(NamedTuple):
    """The requests of a model, or of a judge."""

    calls: int
    answered: int
    failed: int
    late: int
    refused: int
    paused: int
    """The endpoint asked to wait; they were sent again."""
    cut_off: int
    """On their way when the command was killed: what they cost is not known."""
    dollars: float
    last: str
    """The last error."""

    @property
    def unanswered(self) -> int:
        """Requests that brought no answer, but for those that were cut off, or sent again after a pause."""
        return self.failed + self.late + self.refused


class Ledger:
    """A database in a folder of its own. It is thread-safe, and may be killed at any time.

    What was committed survives the process. Several processes may share it (`shared`).
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        """Raises FixError where another process has it alone, OSError, and sqlite3.Error for a file that is damaged."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held = _locked(folder / "lock", shared)
        self._lock = threading.RLock()
        file = folder / _FILE
        # Before SQLite makes it: its other files take the permissions of this one.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            self._base = _opened(file)
        except BaseException:
            self._held.close()
            raise
        if not shared:  # whoever began those has ended
            with self._base:
                self._base.execute("UPDATE calls SET outcome = ? WHERE outcome = 'begun'", (CUT_OFF,))

    @property
    def spent(self) -> tuple[int, float]:
        """Requests and dollars so far, of all runs."""
        with self._lock:
            return self._base.execute("SELECT count(*), coalesce(sum(cost), 0.0) FROM calls").fetchone()

    def note(self, who: str, call: Call) -> None:
        """Write a request down, when it begins and when it ends."""
        with self._lock, self._base:
            self._put(who, call)

    def _put(self, who: str, call: Call) -> None:
        values = (call.id, who, call.outcome, call.seconds, call.input_tokens, call.output_tokens, call.cost)
        self._base.execute(
            "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, call.error, time.time())
        )

    def keep(self, key: str, who: str, outcome: Reply | UnansweredPrompt, call: Call | None = None) -> None:
        """Write an answer down, and the request that brought it, both or neither."""
        kind = "reply" if isinstance(outcome, Reply) else "ended"
        value = json.dumps(asdict(outcome) if isinstance(outcome, Reply) else outcome._asdict())
        with self._lock, self._base:
            if call is not None:
                self._put(who, call)
            self._base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", (key, who, kind, value))

    def find(self, key: str) -> Reply | UnansweredPrompt | None:
        """The answer; None where there is none, or where it cannot be read."""
        with self._lock:
            row = self._base.execute("SELECT kind, value FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            fields: dict[str, Any] = json.loads(row[1])
            return Reply(**fields) if row[0] == "reply" else UnansweredPrompt(**fields)
        except (ValueError, TypeError):
            return None

    def forget_ended(self) -> None:
        """Forget which prompts were not answered, so that they are asked again."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM answers WHERE kind = 'ended'")

    def tallies(self) -> dict[str, Tally]:
        """The requests by who was asked."""
        counts = ", ".join(f"sum(outcome = '{outcome}')" for outcome in _COUNTED)
        last = (
            "SELECT error FROM calls AS one WHERE one.who = calls.who AND outcome IN ('failed', 'refused') "
            "ORDER BY at DESC LIMIT 1"
        )
        sums = f"{counts}, sum(cost), coalesce(({last}), '')"
        asked = f"SELECT who, count(*), {sums} FROM calls GROUP BY who"  # nosec B608: of constants
        with self._lock:
            rows = self._base.execute(asked).fetchall()
        return {who: Tally(*counted) for who, *counted in rows}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._base.close()
        self._held.close()


def _locked(file: Path, shared: bool) -> Any:
    """An open file that is locked until it is closed."""
    held = os.fdopen(os.open(file, os.O_CREAT | os.O_RDWR, 0o600), "r+")
    try:
        fcntl.flock(held, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise FixError(
            f"{file.parent}: another command is at work on it: wait for it, or give --answers FOLDER"
        ) from None
    return held


def _opened(file: Path) -> sqlite3.Connection:
    try:
        return open_database(file, _TABLES, _make_tables)
    except sqlite3.OperationalError:  # locked, or no space
        raise
    except sqlite3.DatabaseError as error:
        raise FixError(f"{file}: cannot be read: {error}. Answers were paid for, so that it is left as it is") from None
    except FixError as error:
        raise FixError(f"{file}: {error}") from None


def _make_tables(base: sqlite3.Connection, version: int) -> None:
    if version not in (0, _TABLES):
        raise FixError(f"expected version {_TABLES}, found {version}: a newer Optimist wrote it")
    base.execute(
        "CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, who TEXT, outcome TEXT, seconds REAL, "
        "input_tokens INT, output_tokens INT, cost REAL, error TEXT, at REAL)"
    )
    base.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, who TEXT, kind TEXT, value TEXT)")
