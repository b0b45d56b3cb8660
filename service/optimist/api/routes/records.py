"""The route of records: what was told of each sample beside its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import from_json

from optimist.api.bodies.objects import run_in_thread
from optimist.api.context import ContextDep
from optimist.api.middleware.permissions import READ_SAMPLES, GuardedRoute, permits
from optimist.api.pages import count_answer
from optimist.records import LogEntry, LogGap, Runs, Unavailable
from optimist_client import tensors
from optimist_client.models import Identifier, SampleRecord

MOST = 256
"""Batches of a page."""
_BYTES = 4 * 2**20
"""Bytes of the log from which on a page has no further batches."""
JSON_LINES = "application/jsonl"
router = APIRouter(prefix="/v1/experiments/{name}", tags=["generators"], route_class=GuardedRoute)


@router.get(
    "/generators/{generator:path}/records",
    response_class=Response,
    responses={
        200: {
            "description": "A line for each record",
            "content": {JSON_LINES: {"schema": SampleRecord.model_json_schema()}},
            "headers": {
                "Link": {"description": 'The next page: `<?after=…>; rel="next"`', "schema": {"type": "string"}}
            },
        }
    },
)
@permits(READ_SAMPLES)
async def get_records(
    name: Identifier,
    generator: str,
    http: Request,
    context: ContextDep,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only batches behind this position of the log")] = 0,
    batches: Annotated[int, Query(ge=1, le=MOST, description="Most batches of the page")] = MOST,
) -> Response:
    """The records of a generator's samples that count, as lines of JSON, in the order of its log.

    A page may have fewer batches than asked for, and batches without records. While others follow, the header `Link`
    names the next page. Without `keep_log` only the newest batches are there.
    """
    ordinal = await context.ordinal(await context.experiment(name), generator)
    state = (await context.store.state(name)).generators[ordinal]
    trimmed = await context.store.log_start(name, ordinal)
    start = max(after, state.seq if trimmed is None else trimmed)
    try:
        read = start < state.seq
        entries = await context.store.read_log(name, ordinal, start, batches, _BYTES) if read else []
    except LogGap:
        raise Unavailable(f"the log of {generator!r} was trimmed while it was read: try again") from None
    gone = {one.position for one in state.retractions} | {one.seq for one in state.quarantined}
    counting = [one for one in entries if one.seq > state.restart and one.seq not in gone and not one.is_retraction]
    text = await run_in_thread(sum(one.size for one in counting), _lines, generator, counting)
    count_answer(http, text)
    more = entries and entries[-1].seq < state.seq
    headers = {"link": f'<?after={entries[-1].seq}&batches={batches}>; rel="next"'} if more else {}
    return Response(text, media_type=JSON_LINES, headers=headers)


def _lines(generator: str, entries: Sequence[LogEntry]) -> str:
    found = (record for entry in entries for record in _records_of(generator, entry))
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in found)


def _records_of(generator: str, entry: LogEntry) -> Iterator[dict[str, Any]]:
    """The fields of `SampleRecord`, not validated, because the service wrote them itself."""
    arrays = tensors.decode(entry.body)
    if tensors.RECORDS not in arrays:
        return
    records = tensors.unpack_ids(arrays[tensors.RECORDS], tensors.RECORDS)
    ids = tensors.unpack_ids(arrays[tensors.IDS]) if tensors.IDS in arrays else [""] * len(records)
    counted, indices = _spread(entry.counted) or [*range(len(records))], _spread(entry.indices)
    for place, row in enumerate(counted):
        if records[row]:
            known = {"generator": generator, "position": entry.seq, "pick": entry.pick or None, "row": row}
            index = indices[place] if place < len(indices) else None
            yield known | {"index": index, "id": ids[row] or None, "record": _value(records[row])}


def _value(text: str) -> Any:
    """The value of a record; its text, where a worker without the SDK told something else than JSON."""
    try:
        value = from_json(text)
        json.dumps(value, allow_nan=False)  # refuses NaN, and 1e999, which is infinite
    except ValueError:
        return text
    return value


def _spread(runs: Runs) -> list[int]:
    """The numbers in runs of first and length."""
    return [number for first, count in [*pairwise(runs)][::2] for number in range(first, first + count)]
