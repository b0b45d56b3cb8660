"""What scorers do: they claim a generator by a metric, and publish what they made of its log."""

from __future__ import annotations

from optimist.records import Conflict, Superseded
from tests.oracle.oracle import Oracle
from tests.oracle.rows import CLAIMS, ESTIMATES, LOG, UNITS
from tests.oracle.transitions.controls import generator_of, root_of


def claim(oracle: Oracle, unit: str, token: str) -> None:
    """Whoever has this token may publish from now on."""
    oracle.put(CLAIMS, unit, token)


def publish(oracle: Oracle, g: int, label: str, seq: int, payload: str, token: str, chain: str) -> bool:
    """Whether this is the estimate now, made of the log up to `seq`, where it has this chain; False if there is a newer
    one. Its name is the store's. Raises Superseded."""
    unit = _held(oracle, g, label, token)
    standing = int(oracle.read(UNITS, f"{unit}:seq") or 0)
    if standing >= seq:
        return standing == seq and oracle.read(ESTIMATES, unit) == payload
    _check_follows(oracle, g, seq, chain)
    oracle.put(ESTIMATES, unit, payload)
    oracle.put(UNITS, f"{unit}:seq", str(seq))
    oracle.put(UNITS, f"{unit}:error", None)
    return True


def fit(oracle: Oracle, g: int, label: str, payload: str, token: str, read: dict[int, tuple[int, str]]) -> str:
    """The kernels that are fixed now: those of the first call. read: position and chain of the last entry of each log.

    Raises Superseded.
    """
    _held(oracle, g, label, token)
    for h, (seq, chain) in read.items():
        _check_follows(oracle, h, seq, chain, is_made=False)
    if (standing := oracle.read(UNITS, f"{label}:fitted")) is not None:
        return standing
    oracle.put(UNITS, f"{label}:fitted", payload)
    oracle.put(UNITS, f"{label}:fitted_from", " ".join(f"{h} {seq}" for h, (seq, _) in read.items()))
    return payload


def keep_snapshot(oracle: Oracle, g: int, label: str, seq: int, token: str, chain: str) -> bool:
    """Whether this is the snapshot now; False if one as new or newer exists. The log begins behind it then, unless all
    of it is kept. Raises Superseded, Conflict where the log does not reach so far."""
    root, unit = root_of(oracle), _held(oracle, g, label, token)
    before = oracle.read(UNITS, f"{unit}:snapshot_seq")
    if before is not None and int(before) >= seq:
        return False
    if seq > generator_of(oracle, g).seq:
        raise Conflict(f"the log does not reach position {seq}")
    _check_follows(oracle, g, seq, chain)
    facts = {"chunks": "1", "seq": str(seq), "chain": chain}
    if (entry := oracle.read(LOG, (g, seq))) is not None:
        facts["bytes"] = str(entry["bytes"])
    for fact, value in facts.items():
        oracle.put(UNITS, f"{unit}:snapshot_{fact}", value)
    if not root.keep_log:
        oracle.trim(g, seq + 1)
    return True


def _held(oracle: Oracle, g: int, label: str, token: str) -> str:
    root_of(oracle)
    unit = f"{g}:{label}"
    if oracle.read(CLAIMS, unit) != token:
        raise Superseded("another scorer has taken over this generator")
    return unit


def _check_follows(oracle: Oracle, g: int, seq: int, chain: str, *, is_made: bool = True) -> None:
    """Raise Superseded unless the log has this chain at this position; is_made: and nothing was retracted since."""
    generator, entry = generator_of(oracle, g), oracle.read(LOG, (g, seq))
    standing = generator.chain if seq == generator.seq else entry and entry["chain"]
    if standing != chain or (is_made and seq < generator.voids):
        raise Superseded("Redis has lost batches, or kernels, that this was made of")
