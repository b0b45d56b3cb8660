"""Records as JSON, and as entries of streams: what is read again is what was written, to the last bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as any_

from optimist.estimates.estimate import Change, Estimate
from optimist.records import AcceptanceRecord, RetractionRecord, codec

numbers = any_.floats(allow_nan=False)
counts = any_.integers(0, codec.LARGEST)
texts = any_.text(max_size=20)


@codec.record
@dataclass(frozen=True, slots=True)
class Kept:
    """A record with a field of each kind."""

    number: float
    count: int
    text: str
    several: tuple[tuple[str, float], ...] = ()
    change: Change | None = None


changes = any_.builds(Change, counts, counts, counts, numbers, numbers)
kept = any_.builds(Kept, numbers, any_.integers(), texts, any_.lists(any_.tuples(texts, numbers)).map(tuple), changes)


@given(kept)
def test_a_record_comes_back_as_it_was_and_has_one_text(record: Kept):
    text = codec.encode(record)
    again = codec.decode(Kept, text)
    assert again == record
    assert math.copysign(1.0, again.number) == math.copysign(1.0, record.number)
    assert codec.encode(again) == text


def test_no_number_is_rounded():
    record = Kept(0.1 + 0.2, 2**63 + 1, '"\n\t é')
    text = codec.encode(record)
    assert text.startswith('{"number":0.30000000000000004,"count":9223372036854775809,')
    assert codec.decode(Kept, text) == record


@given(
    any_.builds(
        RetractionRecord,
        *(counts, counts.map(lambda n: n + 1 if n < codec.LARGEST else n), counts, counts, counts, counts),
        *(any_.integers(1, codec.LARGEST), texts, any_.floats(0, 1e12), texts, counts, any_.booleans()),
        any_.just("0" * 40),
    )
    | any_.builds(AcceptanceRecord, counts, counts, any_.integers(1, codec.LARGEST), texts, any_.floats(0, 1e12), texts)
)
def test_an_entry_of_a_stream_comes_back_as_it_was(record: RetractionRecord | AcceptanceRecord):
    assert codec.from_entry(type(record), [text.encode() for text in codec.to_entry(record)]) == record


def test_values_of_the_wrong_kind_are_refused():
    record = AcceptanceRecord(0, 5, 5, "key", 1763824000.5, "right")
    text = codec.encode(record)
    for wrong in (text.replace("5,", "-5,", 1), text.replace('"key"', "7"), text[:-1], "[]"):
        with pytest.raises(ValueError, match="Acceptance"):
            codec.decode(AcceptanceRecord, wrong)


def test_an_infinite_end_is_none_where_json_is_for_others():
    estimate = Estimate(1.0, 1.1, 4, -math.inf, 2.0, 2.0)
    assert codec.plain(estimate)["lower"] is None
    assert codec.decode(Estimate, codec.encode(estimate)) == estimate
