"""Bugs to be planted in the store's scripts. The simulator must find each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from optimist.store import scripts


class Edit(NamedTuple):
    """A text of a script in lua/ that is replaced."""

    script: str
    old: str
    new: str


SCRIPT_BUGS = {
    "other picks may have been opened": Edit(
        "opening", "tonumber(rounds) ~= expected or (newest or '') ~= last", "tonumber(rounds) > expected + 64"
    ),
    "indices that others took are handed out": Edit(
        "opening", "if pick.again == '' and start ~= of.handed then", "if false then"
    ),
    "nonces are not compared": Edit("settling", "if nonce_in(agreed) ~= nonce then", "if false then"),
    "ended picks are known by their number alone": Edit(
        "picks", "if made_by ~= nonce and (nonce", "if false and (nonce"
    ),
    "late batches hand back again": Edit(
        "settling", "if release(number, pick) then\n    was", "if release(number, pick) or true then\n    was"
    ),
    "the last run is not handed back": Edit(
        "picks",
        "local runs = untold(g, start + rows, size - rows)",
        "local runs = untold(g, start + rows, size - rows - 1)",
    ),
    "told indices are not marked": Edit("accept", "for i = 1, #part.indices, 2 do", "for i = 3, #part.indices, 2 do"),
    "what was told is handed out again": Edit("accept", "if #part.indices > 0 and (late or", "if false and (late or"),
    "growth is of the samples before": Edit(
        "accept", "samples >= (1 + growth) * due", "samples > (1 + growth) * due + 1"
    ),
    "retracted indices stay told": Edit("retract", "  unmark_told(g, indices[i], indices[i + 1])\n", ""),
    "retractions leave the version": Edit("retract", "changed()", "touch()"),
    "estimates leave the version": Edit("put_estimate", "  changed()\n", "  touch()\n"),
    "older scorers publish": Edit("prelude", "return redis.call('HGET', claims, unit) == token", "return true"),
    "snapshots trim one more": Edit("flip_snapshot", "oldest + 1))", "oldest + 2))"),
    "given up twice": Edit("give_up", "if release(number, pick) then", "if release(number, pick) or true then"),
}


@contextmanager
def planted(bug: Edit) -> Iterator[None]:
    """While this lasts, the script has the bug."""
    read = scripts.text

    def edited(name: str) -> str:
        text = read(name)
        if name != bug.script:
            return text
        assert bug.old in text, f"{name}.lua has no {bug.old!r}"
        return text.replace(bug.old, bug.new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "text", edited)
        scripts.load.cache_clear()
        yield
    scripts.load.cache_clear()
