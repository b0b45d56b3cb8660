"""Routes of previews: workers bring them after a tell, and whoever may read an experiment looks at them.

What previews are is read from their own bytes, never taken from what a request says of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import Annotated, Any, get_args

import imagesize
import numpy as np
from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel

from optimist.api.alike import are_central, modes_and_copies
from optimist.api.app_state import AppStateDep
from optimist.api.bodies.objects import LARGE, LongRoute, run_in_thread
from optimist.api.middleware.permissions import READ_SAMPLES, WORK, permits
from optimist.api.pages import TaggedBody, respond
from optimist.api.problems import invalid
from optimist.api.routes.picks import INSTANCE, NONCE
from optimist.policies.audits import audit_key
from optimist.records import NotFound, PreparedPreview, StoredPreview
from optimist_client import models
from optimist_client.models import Identifier, PreviewInfo, PreviewReply, PreviewRequest, Previews
from optimist_client.models.previews import PreviewKind
from optimist_client.previews import LARGEST, audio_kind, image_kind

RESERVE = 1.5
"""The reserves of Redis' memory and disk that stay free of previews: tells go on for longer."""
SAFE = {
    # Nothing of it may run, whatever it is and however somebody comes to open it.
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "private, no-cache",
}
router = APIRouter(prefix="/v1/experiments/{name}", tags=["previews"], route_class=LongRoute)


class About(BaseModel):
    """The facts that are stored beside the bytes of a preview; with the field names of `PreviewInfo`."""

    kind: PreviewKind
    bytes: int
    digest: str
    width: int | None = None
    height: int | None = None
    prompt: str | None = None
    text: str | None = None
    features: str | None = None
    """float32 in base64."""


def read_previews(request: models.PreviewRequest, seed: int | None) -> list[PreparedPreview]:
    """The previews as the store keeps them. seed: of an experiment whose samples are audited.

    Raises `ApiError` 422 for one that is no image, text or sound as it should be.
    """
    return [_read(preview, request.start, seed) for preview in request.previews]


def _read(preview: models.NewPreview, start: int | None, seed: int | None) -> PreparedPreview:
    name = f"previews: place {preview.place}"
    prompt = None if preview.prompt is None else _encodable(name, preview.prompt[:500])
    if preview.text is not None:
        body = _encodable(name, preview.text).encode()
        about = About(kind="text/plain", bytes=len(body), digest="", prompt=prompt, text=preview.text[:300])
    elif preview.audio is not None:
        body = _decoded(name, preview.audio)
        sound = audio_kind(body)
        if sound is None:
            raise invalid(f"{name}: expected a WAV, MP3, Ogg or FLAC file")
        about = About(kind=sound, bytes=len(body), digest="", prompt=prompt)
    else:
        body = _decoded(name, preview.image or "")
        kind, width, height = measured(name, body)
        about = About(kind=kind, bytes=len(body), digest="", width=width, height=height, prompt=prompt)
    if len(body) > LARGEST:
        raise invalid(f"{name}: expected at most {LARGEST} bytes, got {len(body)}")
    about.digest = hashlib.sha256(body).hexdigest()[:16]
    if preview.features:
        about.features = base64.b64encode(np.array(preview.features, dtype="<f4").tobytes()).decode()
    index = None if start is None else start + preview.place
    rank = None if seed is None or index is None else audit_key(seed, index)
    return PreparedPreview(preview.place, index, about.model_dump_json(exclude_none=True), body, rank)


PreviewGroup = dict[str, int]
"""The fields of `PreviewInfo` that say which group a preview belongs to."""


def modes_of(features: Sequence[str | None], generators: Sequence[int]) -> list[PreviewGroup]:
    """The group of each preview, by `About.features` and its generator.

    Nothing for one without features, or with another number of them than most have.
    """
    rows = [b"" if text is None else base64.b64decode(text) for text in features]
    sizes = [len(row) for row in rows if row]
    usual = max(sizes, key=sizes.count, default=0)
    places = [place for place, row in enumerate(rows) if row and len(row) == usual]
    groups: list[PreviewGroup] = [{}] * len(rows)
    if places:
        grouped = _grouped(b"".join(rows[place] for place in places), tuple(generators[place] for place in places))
        for place, group in zip(places, grouped, strict=True):
            groups[place] = group
    return groups


@lru_cache(maxsize=16)  # those who look at the same experiment
def _grouped(rows: bytes, generators: tuple[int, ...]) -> list[PreviewGroup]:
    features = np.frombuffer(rows, dtype="<f4").reshape(len(generators), -1)
    modes, copies = modes_and_copies(features, np.array(generators))
    groups = zip(modes.tolist(), copies.tolist(), are_central(features, modes).tolist(), strict=True)
    return [{"mode": mode, "alike": alike, "central": central} for mode, alike, central in groups]


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # an unpaired surrogate
        raise invalid(f"{name}: expected text that UTF-8 can encode") from None
    return text


def _decoded(name: str, file: str) -> bytes:
    try:
        return base64.b64decode(file, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name}: expected a file in base64: {error}") from None


def measured(name: str, body: bytes, longest_side: int = 2048) -> tuple[PreviewKind, int, int]:
    """The media type, width and height of an image, by its own header.

    longest_side: pixels of the longer side that an image may have: a small file may unpack to gigabytes in a browser.
    Raises `ApiError` 422 for anything but PNG, JPEG and WebP: SVG, for example, could run scripts.
    """
    kind = image_kind(body)
    if kind is None:
        raise invalid(f"{name}: expected a PNG, JPEG or WebP image")
    width, height = -1, -1
    with suppress(Exception):  # a header that ends too early raises errors of any kind
        width, height = imagesize.get(BytesIO(body))
    if width < 0 or height < 0:
        raise invalid(f"{name}: the {kind} has no header that can be read")
    if not (1 <= width <= longest_side and 1 <= height <= longest_side):
        raise invalid(f"{name}: expected an image of at most {longest_side} pixels a side, got {width} × {height}")
    return kind, width, height


@router.put("/picks/{number}/previews")
@permits(WORK)
async def put_previews(
    name: Identifier,
    number: int,
    request: PreviewRequest,
    app: AppStateDep,
    instance: Annotated[str | None, Query(description=INSTANCE)] = None,
    nonce: Annotated[str, Query(pattern=r"^[0-9a-f]{0,64}$", description=NONCE)] = "",
) -> PreviewReply:
    """Bring previews of samples of a pick that was told, at most 16; again, they change nothing.

    The experiment keeps `previews` of each generator: the newest, and half of them a sample of all, by indices that are
    the same for every generator; where people audit a judge, those that are audited first. They are no part of the log
    or of any score, and leave with a retracted batch.
    """
    experiment = await app.experiment(name)
    if experiment.config.previews == 0:
        raise invalid("previews: this experiment keeps none; create it with `previews`, the number for each generator")
    if instance not in (None, experiment.instance):
        raise NotFound("the experiment was deleted and made again since")
    size = sum(len(preview.image or preview.text or preview.audio or "") for preview in request.previews)
    seed = experiment.config.seed if experiment.config.metric.is_audited else None
    previews = await run_in_thread(size, read_previews, request, seed)
    async with app.redis_health.room_for(sum(len(preview.body) for preview in previews), reserve=RESERVE):
        ordinal, kept = await app.store.put_previews(
            name, number, previews, experiment.config.previews, instance=experiment.instance, nonce=nonce
        )
    return PreviewReply(generator=await app.generator_name(experiment, ordinal), kept=kept)


@router.get("/previews", response_model=Previews)
@permits(READ_SAMPLES)
async def get_previews(
    name: Identifier,
    app: AppStateDep,
    modes: Annotated[bool, Query(description="Whether they are grouped by their features")] = False,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The previews that are kept, without their bytes; answers 304 to the `ETag` it gave when nothing has changed.

    modes: each says which of up to 8 groups of the kept samples of all generators it belongs to, by k-means of their
    features, and which ones of its generator are nearly identical. They are modes of what is kept, by any metric.
    """
    experiment = await app.experiment(name)
    kept: list[PreviewInfo] = []
    if experiment.config.previews:
        stored = await app.store.previews(name)
        kept = await run_in_thread(LARGE + 1 if modes else 0, _all_listed, stored, modes)  # k-means takes up to 0.3 s
    answer = Previews.model_construct(most=experiment.config.previews, previews=kept)
    return respond(TaggedBody.from_text(answer.model_dump_json()), if_none_match)


def _all_listed(stored: Sequence[tuple[str, StoredPreview]], modes: bool) -> list[PreviewInfo]:
    abouts: list[dict[str, Any]] = [
        dict.fromkeys(About.model_fields) | json.loads(preview.about) for _, preview in stored
    ]
    features = [about.pop("features") for about in abouts]
    groups = modes_of(features if modes else [None] * len(stored), [preview.generator for _, preview in stored])
    return [
        _listed(generator, preview, about | group)
        for (generator, preview), about, group in zip(stored, abouts, groups, strict=True)
    ]


def _listed(generator: str, preview: StoredPreview, about: dict[str, Any]) -> PreviewInfo:
    # Not validated again: there may be thousands, and the service wrote them itself.
    id = f"{preview.generator}-{preview.pick}-{preview.place}"
    facts = {"pick": preview.pick, "place": preview.place, "position": preview.position, "index": preview.index}
    return PreviewInfo.model_construct(id=id, generator=generator, **facts, **about)


@router.get(
    "/previews/{id}",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes, which are not to be run: the answer has a Content-Security-Policy",
            "content": {kind: {} for kind in get_args(PreviewKind)},
        }
    },
)
@permits(READ_SAMPLES)
async def get_preview(
    name: Identifier,
    id: Annotated[str, Path(pattern=r"^\d{1,4}-\d{1,15}-\d{1,10}$")],
    app: AppStateDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The bytes of a preview: an image, a sound, or plain text."""
    await app.experiment(name)
    generator, pick, place = map(int, id.split("-"))
    preview = await app.store.preview(name, generator, pick, place)
    if preview is None:
        raise NotFound(f"experiment {name!r} has no preview {id!r}, or keeps it no longer")
    return shown(*preview, if_none_match)


def shown(preview: StoredPreview, body: bytes, if_none_match: str | None) -> Response:
    """The bytes of a preview, which are not to be run."""
    about = About.model_validate_json(preview.about)
    headers = SAFE | {"etag": f'"{about.digest}"'}
    if if_none_match == headers["etag"]:
        return Response(status_code=304, headers=headers)
    kind = "text/plain; charset=utf-8" if about.kind == "text/plain" else about.kind
    return Response(body, media_type=kind, headers=headers)
