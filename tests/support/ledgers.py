"""Hand-made ledgers for the tests of the checks: picks of the first question, and the answers to their tells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.chaos.questions import BATCH, QUESTIONS
from tests.chaos.rollback import Rollback
from tests.chaos.wire import Reply
from tests.chaos.workers import Ledger, Picked


def pick_of(number: int, generator: str = "a", *, worker: str = "w", nonce: str = "A") -> dict[str, Any]:
    """A pick as the service returns it, with its number as seed."""
    pick = {"number": number, "generator": generator, "size": BATCH, "seed": number, "worker": worker}
    return pick | {"stale": False, "positions": [0, 0, 0], "nonce": nonce}


def handed(
    ledger: Ledger,
    number: int,
    generator: str = "a",
    *,
    nonce: str = "A",
    positions: Sequence[int] = (0, 0, 0),
    sent: float | None = None,
) -> Picked:
    """Record a pick that was asked for at `sent`, or now."""
    pick = pick_of(number, generator, nonce=nonce) | {"positions": list(positions)}
    return ledger.picked(QUESTIONS[0], pick, time.monotonic() if sent is None else sent)


def told(
    ledger: Ledger,
    number: int,
    generator: str = "a",
    *,
    position: int,
    counted_for: str | None = None,
    nonce: str = "A",
    sent: float | None = None,
) -> Picked:
    """Record a pick, and that its batch was acknowledged."""
    pick = handed(ledger, number, generator, nonce=nonce, sent=sent)
    answer = {"pick": number, "generator": counted_for or generator, "position": position}
    reply = Reply(
        answer | {"late": False, "duplicate": False, "uncounted": 0}, time.monotonic() if sent is None else sent, 0.0
    )
    ledger.told(pick, reply)
    return pick


def rolled_back(ledger: Ledger, to: float) -> None:
    """Record that Redis returned to its state of `to` (monotonic seconds) and serves again."""
    now = time.monotonic()
    ledger.rollbacks.append(Rollback(now, to, now))


def report(batches: int, samples: int | None = None, *, rounds: int | None = None, open_picks: int = 0) -> dict:
    """Reports by experiment that count only batches of generator "a"."""
    samples = batches * BATCH if samples is None else samples
    standing = {"generator": "a", "batches": batches, "samples": samples, "warnings": []}
    rounds = batches if rounds is None else rounds
    return {"fid": {"rounds": rounds, "open_picks": open_picks, "scored": True, "standings": [standing]}}
