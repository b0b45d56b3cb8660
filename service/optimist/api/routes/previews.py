"""Routes of previews: workers bring them after a tell, and whoever may read an experiment looks at them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Header, Path, Query, Response

from optimist.api.bodies.aside import LARGE, aside
from optimist.api.bodies.objects import LongRoute
from optimist.api.bodies.previews import About, modes_of, read_previews
from optimist.api.context import ContextDep
from optimist.api.entities import Body, respond
from optimist.api.problems import invalid
from optimist.api.routes.picks import INSTANCE, NONCE
from optimist.records import NotFound, StoredPreview
from optimist_client.models import Identifier, PreviewInfo, PreviewReply, PreviewRequest, Previews
from optimist_client.models.previews import PreviewKind

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


@router.put("/picks/{number}/previews")
async def put_previews(
    name: Identifier,
    number: int,
    request: PreviewRequest,
    context: ContextDep,
    instance: Annotated[str | None, Query(description=INSTANCE)] = None,
    nonce: Annotated[str, Query(pattern=r"^[0-9a-f]{0,64}$", description=NONCE)] = "",
) -> PreviewReply:
    """Bring previews of samples of a pick that was told, at most 16; again, they change nothing.

    The experiment keeps `previews` of each generator: the newest, and half of them a sample of all, by indices that are
    the same for every generator. They are no part of the log or of any score, and leave with a retracted batch.
    """
    experiment = await context.experiment(name)
    if experiment.config.previews == 0:
        raise invalid("previews: this experiment keeps none; create it with `previews`, the number for each generator")
    if instance not in (None, experiment.instance):
        raise NotFound("the experiment was deleted and made again since")
    size = sum(len(one.image or one.text or "") for one in request.previews)
    previews = await aside(size, read_previews, request)
    async with context.vitals.room_for(sum(len(one.body) for one in previews), reserve=RESERVE):
        ordinal, kept = await context.store.put_previews(
            name, number, previews, experiment.config.previews, instance=experiment.instance, nonce=nonce
        )
    names = experiment.config.generators
    if ordinal >= len(names):  # added since
        names = [generator.name for generator in (await context.store.state(name)).generators]
    return PreviewReply(generator=names[ordinal], kept=kept)


@router.get("/previews", response_model=Previews)
async def get_previews(
    name: Identifier,
    context: ContextDep,
    modes: Annotated[bool, Query(description="Whether they are grouped by their features")] = False,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The previews that are kept, without their bytes; answers 304 to the `ETag` it gave when nothing has changed.

    modes: each says which of up to 8 groups of the kept samples of all generators it belongs to, by k-means of their
    features, and which ones of its generator are nearly identical. They are modes of what is kept, by any metric.
    """
    experiment = await context.experiment(name)
    kept: list[PreviewInfo] = []
    if experiment.config.previews:
        stored = await context.store.previews(name)
        kept = await aside(LARGE + 1 if modes else 0, _all_listed, stored, modes)  # k-means takes up to 0.3 s
    answer = Previews.model_construct(most=experiment.config.previews, previews=kept)
    return respond(Body.of(answer.model_dump_json()), if_none_match)


def _all_listed(stored: Sequence[tuple[str, StoredPreview]], modes: bool) -> list[PreviewInfo]:
    abouts: list[dict[str, Any]] = [dict.fromkeys(About.model_fields) | json.loads(one.about) for _, one in stored]
    features = [about.pop("features") for about in abouts]
    groups = modes_of(features if modes else [None] * len(stored), [one.generator for _, one in stored])
    return [
        _listed(generator, one, about | {"mode": mode, "alike": alike})
        for (generator, one), about, (mode, alike) in zip(stored, abouts, groups, strict=True)
    ]


def _listed(generator: str, one: StoredPreview, about: dict[str, Any]) -> PreviewInfo:
    # Not validated again: there may be thousands, and the service wrote them itself.
    id = f"{one.generator}-{one.pick}-{one.place}"
    place = {"pick": one.pick, "place": one.place, "position": one.position, "index": one.index}
    return PreviewInfo.model_construct(id=id, generator=generator, **place, **about)


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
async def get_preview(
    name: Identifier,
    id: Annotated[str, Path(pattern=r"^\d{1,4}-\d{1,15}-\d{1,10}$")],
    context: ContextDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The bytes of a preview: PNG, JPEG, WebP, or plain text."""
    await context.experiment(name)
    generator, pick, place = map(int, id.split("-"))
    found = await context.store.preview(name, generator, pick, place)
    if found is None:
        raise NotFound(f"experiment {name!r} has no preview {id!r}, or keeps it no longer")
    preview, body = found
    about = About.model_validate_json(preview.about)
    headers = SAFE | {"etag": f'"{about.digest}"'}
    if if_none_match == headers["etag"]:
        return Response(status_code=304, headers=headers)
    kind = "text/plain; charset=utf-8" if about.kind == "text/plain" else about.kind
    return Response(body, media_type=kind, headers=headers)
