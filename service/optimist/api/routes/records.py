"""The route of records: what was told of each sample beside its rows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from io import BytesIO
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic_core import from_json

from optimist.api.app_state import AppStateDep
from optimist.api.bodies.objects import JSON_WORK, run_in_thread
from optimist.api.exclusion import Exclusion
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.limits import BodyShare
from optimist.api.middleware.permissions import READ_SAMPLES, GuardedRoute, permits
from optimist.records import LogEntry, LogGap, Runs, Unavailable
from optimist_client import tensors
from optimist_client.models import Identifier, SampleRecord

MAX_BATCHES = 256
"""Batches of a page."""
_BYTES = 4 * 2**20
"""Bytes of lines from which on a page ends."""
JSON_LINES = "application/jsonl"
router = APIRouter(prefix="/v1/experiments/{name}", tags=["generators"], route_class=GuardedRoute)


@router.get(
    "/generators/{generator:path}/records",
    response_class=StreamingResponse,
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
    request: Request,
    app: AppStateDep,
    caller: CallerDep,
    after: Annotated[
        str,
        Query(
            pattern=r"^[0-9]{1,16}(:[0-9]{1,9})?$",
            description="Only what is behind this position of the log, or a row of the batch there: `7`, `7:300`",
        ),
    ] = "0",
    batches: Annotated[int, Query(ge=1, le=MAX_BATCHES, description="Most batches of the page")] = MAX_BATCHES,
) -> StreamingResponse:
    """The records of a generator's samples that count, as lines of JSON, in the order of its log.

    A page may have fewer batches than asked for, batches without records, and at its end a part of a batch. While
    others follow, the header `Link` names the next page. Without `keep_log` only the newest batches are there.
    """
    ordinal = await app.ordinal(await app.experiment(name), generator)
    state = (await app.store.state(name)).generators[ordinal]
    trimmed = await app.store.log_start(name, ordinal)
    gone = {batch.position for batch in state.retractions} | {batch.seq for batch in state.quarantined}
    position, _, row = after.partition(":")
    at, first = (int(position) - 1, int(row) + 1) if row else (int(position), 0)
    start = max(at, 0, state.seq if trimmed is None else trimmed)
    cursor, first = start, first if start == at else 0
    page, following = BytesIO(), ""
    exclusion: Exclusion = request.app.state.exclusion
    share: BodyShare = request.scope["memory"]
    # Of each namespace one page at a time: a batch is whole in memory until its lines are made. For three times as long
    # as a page took nobody of the namespace gets another one: to read and write whole batches keeps Redis, the
    # interpreter and a core from others, however fast pages are asked for.
    async with exclusion.resting_lock("records", caller.namespace, 3.0):
        while cursor < min(state.seq, start + batches) and page.tell() < _BYTES:
            try:
                entries = await app.store.read_log(name, ordinal, cursor, 1)
            except LogGap:
                raise Unavailable(f"the log of {generator!r} was trimmed while it was read: try again") from None
            if not entries:  # Redis has lost the end of the log
                break
            entry = entries.pop()
            cursor = entry.seq
            if cursor > state.restart and cursor not in gone and entry.is_batch:
                share.hold(2 * (entry.size + page.tell()))
                last = await run_in_thread(JSON_WORK * entry.size, _write_lines, page, generator, entry, first)
                following = "" if last is None else f"{cursor}:{last}"
            first = 0
            del entry  # before the next one is read
    share.release()
    share.hold(2 * page.tell())
    headers = {"content-length": f"{page.tell()}"}
    if following or cursor < state.seq:
        headers["link"] = f'<?after={following or cursor}&batches={batches}>; rel="next"'
    return StreamingResponse(_pieces(page), media_type=JSON_LINES, headers=headers)


async def _pieces(page: BytesIO) -> AsyncGenerator[bytes]:
    """So that the page counts until its client has taken it: the server waits before each piece."""
    page.seek(0)
    while piece := page.read(2**18):
        yield piece


def _write_lines(page: BytesIO, generator: str, entry: LogEntry, first: int) -> int | None:
    """Write the lines of a batch to a page, from a row on. The last row of them, where the page is full; else None."""
    for record in _records_of(generator, entry, first):
        page.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        if page.tell() >= _BYTES:
            return record["row"]
    return None


def _records_of(generator: str, entry: LogEntry, first: int) -> Iterator[dict[str, Any]]:
    """The fields of `SampleRecord`, not validated, because the service wrote them itself; from a row on."""
    records = tensors.packed_rows(entry.body, tensors.RECORDS)
    if records is None:
        return
    ids = tensors.packed_rows(entry.body, tensors.IDS)
    counted, indices = _spread(entry.counted) or range(len(records)), _spread(entry.indices)
    for place, row in enumerate(counted):
        if row >= first and (text := tensors.unpacked(records[row])):
            origin = {"generator": generator, "position": entry.seq, "pick": entry.pick or None, "row": row}
            index = indices[place] if place < len(indices) else None
            id_ = None if ids is None else tensors.unpacked(ids[row]) or None
            yield origin | {"index": index, "id": id_, "record": _value(text)}


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
