"""Routes of audits: people get samples that a judge has scored, and say what they think of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request, Response

from optimist.api.app_state import AppState, AppStateDep
from optimist.api.bodies.objects import ModelRoute
from optimist.api.exclusion import Exclusion
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.permissions import RATE, READ, Caller, permits
from optimist.api.problems import invalid
from optimist.api.routes.previews import RESERVE, shown
from optimist.experiments.audits import (
    audits_left,
    check_audited,
    is_done,
    more_audits,
    prompt_of,
    questioned,
    scale_of,
    wanted_audits,
)
from optimist.experiments.state import PolicyState
from optimist.policies.audits import A_BATCH
from optimist.records import Audit, AuditsState, NotFound, StoredPreview
from optimist.store.audits import LEASE
from optimist.turns import aside
from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.models import AuditAnswer, AuditCounts, AuditReply, AuditRequest, Audits, Experiment, Identifier
from optimist_client.models.audits import RaterName

MAX_TEXT = 2**20
"""Bytes of the texts of a reply; the others are at their addresses."""
RACES = 8
"""Times that audits are chosen for somebody while other API processes give new ones; then they get fewer, and ask
again."""
TAKEN = 512
"""Bytes that an audit, or an answer beside its comment, takes in Redis for each sample: twice what was measured."""
router = APIRouter(prefix="/v1/experiments/{name}/audits", tags=["audits"], route_class=ModelRoute)
Id = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Rater = Annotated[RaterName | None, Query(description="As in the body of other requests")]


async def _audited(app: AppState, name: str) -> Experiment:
    """The experiment. Raises `ApiError` 422 where people audit no judge."""
    experiment = await app.experiment(name)
    try:
        check_audited(experiment)
    except FixError as error:
        raise invalid(f"{error}") from None
    return experiment


def _rater(caller: Caller, named: str | None) -> str:
    """The name under which somebody scores. Raises `ApiError` 422 where a rater has none."""
    if named is None and caller.role == "rater":
        raise invalid("rater: expected a name, as several people may have the same access key")
    return named or caller.key or "anonymous"


@router.post("")
@permits(RATE)
async def ask(
    name: Identifier, app: AppStateDep, caller: CallerDep, http: Request, request: AuditRequest | None = None
) -> Audits:
    """The next samples to score: of each generator in question the one of the same index, thus of the same prompt.

    The same rater gets the same ones again until they are answered, or for ten minutes. A key of role `rater` sees
    neither whose samples they are nor their index, in an order of their own for each audit and rater, and gets only
    audits of samples that can all be shown.
    """
    experiment = await _audited(app, name)
    request = request or AuditRequest()
    rater, is_blind = _rater(caller, request.rater), caller.role == "rater"
    state = await app.latched_state(experiment)
    exclusion: Exclusion = http.app.state.exclusion
    # One after the other, else raters who ask at once would make each other's choices late until some get nothing.
    async with exclusion.lock("audits", caller.namespace, name):
        given, stored = await _given(app, state, caller, rater, request.count)
    own = [stored.audits[id_] for id_ in given if id_ in stored.audits]
    return Audits(
        audits=await _seen(app, state, own, rater, is_blind=is_blind),
        answered=stored.answered,
        open=stored.open,
        unanswered=stored.unanswered,
        wanted=more_audits(state, stored),
        kind="votes" if experiment.config.metric.name == "win-rate" else "score",
        scale=scale_of(experiment),
        done=is_done(state, stored),
    )


async def _given(
    app: AppState, state: PolicyState, caller: Caller, rater: str, count: int
) -> tuple[list[str], AuditsState]:
    """The ids of up to `count` audits that a rater has now, and all audits."""
    name, places = state.config.name, questioned(state)
    told = await app.store.told(name, places)
    shown_indices = await app.store.shown_indices(name, places) if caller.role == "rater" else None
    tries = 0
    while True:
        tries += 1
        stored = await app.store.audits(name)
        known, left = len(stored.audits), audits_left(state, stored, rater, count)
        if left <= 0:
            return [], stored
        wanted = await aside(known, partial(wanted_audits, state, stored, told, rater, left, shown=shown_indices))
        async with app.redis_health.room_for(TAKEN * left, reserve=RESERVE):
            given, was_late = await app.store.ask_audits(
                name,
                rater,
                left,
                wanted,
                known=known,
                instance=state.experiment.instance,
                holder=caller.key or "",
            )
        if not was_late or tries == RACES:
            return given, await app.store.audits(name) if given else stored


async def _seen(
    app: AppState, state: PolicyState, audits: Sequence[Audit], rater: str, *, is_blind: bool
) -> list[models.Audit]:
    name, names = state.config.name, [generator.name for generator in state.stored.generators]
    wanted = [(g, one.index) for one in audits for g in one.raters.get(rater, {})]
    found = iter(await app.store.previews_at(name, wanted))
    found_audits, left = list[models.Audit](), MAX_TEXT
    for one in audits:
        prompt, samples = prompt_of(state.experiment, one.index), list[models.AuditSample]()
        for place, g in enumerate(one.raters.get(rater, {})):
            sample, known, left = _sample(
                next(found), f"/v1/experiments/{name}/audits/{one.id}/samples/{place}", rater, left
            )
            prompt = known if prompt is None else prompt
            samples.append(sample if is_blind else sample.model_copy(update={"generator": names[g]}))
        found_audits.append(
            models.Audit(
                audit=one.id,
                expires_in=LEASE,
                index=None if is_blind else one.index,
                prompt=None if prompt is None else models.AuditPrompt(text=prompt),
                samples=samples,
            )
        )
    return found_audits


def _sample(
    preview: tuple[StoredPreview, bytes] | None, path: str, rater: str, left: int
) -> tuple[models.AuditSample, str | None, int]:
    """A sample, its prompt if that is known, and how many bytes of texts are left."""
    if preview is None:
        return models.AuditSample(kind="none"), None, left
    about: dict[str, Any] = json.loads(preview[0].about)
    kind = about["kind"].partition("/")[0]
    text = preview[1].decode() if kind == "text" and len(preview[1]) <= left else None
    left -= 0 if text is None else len(preview[1])
    url = f"{path}?rater={quote(rater, safe='')}"
    return models.AuditSample.model_validate({"kind": kind, "text": text, "url": url}), about.get("prompt"), left


@router.get("/{id}/samples/{place}", response_class=Response)
@permits(RATE)
async def get_sample(
    name: Identifier,
    id: Id,
    place: Annotated[int, Path(ge=0, lt=1000)],
    app: AppStateDep,
    caller: CallerDep,
    rater: Rater = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The bytes of a sample of an audit that the rater has, or had: an image, a sound, or plain text."""
    await _audited(app, name)
    audit = await app.store.audit(name, id)
    given = [] if audit is None else [*audit.raters.get(_rater(caller, rater), {})]
    if audit is None or place >= len(given):
        raise NotFound(f"no audit {id} with so many samples was given to this rater")
    (found,) = await app.store.previews_at(name, [(given[place], audit.index)])
    if found is None:
        raise NotFound("the experiment does not keep what was sampled")
    return shown(*found, if_none_match)


@router.put("/{id}")
@permits(RATE)
async def answer(name: Identifier, id: Id, request: AuditAnswer, app: AppStateDep, caller: CallerDep) -> AuditReply:
    """Say what one thinks of the samples of an audit; again, it replaces what one said before.

    When this answers 200, the answer is durable and counts once. It counts after its time has run out, too. Answers 404
    for an audit that this rater never had, and 409 for samples that were retracted since. After the decision answers
    are kept, and change nothing.
    """
    experiment = await _audited(app, name)
    scores = request.scores
    if isinstance(scores, dict) and caller.role == "rater":
        raise invalid("scores: expected a list, in the order in which samples were shown")
    _check_scale(experiment, [*scores.values()] if isinstance(scores, dict) else scores)
    if isinstance(scores, dict):
        scores = {await app.ordinal(experiment, each): score for each, score in scores.items()}
    size = TAKEN * len(scores) + len(request.comment.encode())
    async with app.redis_health.room_for(size, reserve=0.5):
        answered, can_count = await app.store.answer(
            *(name, id, _rater(caller, request.rater), scores, request.comment),
            batch=A_BATCH,
            instance=experiment.instance,
        )
    app.polls.changed(name)
    return AuditReply(answered=answered, counted=can_count)


def _check_scale(experiment: Experiment, scores: Sequence[float]) -> None:
    low, high = scale_of(experiment) or (-float("inf"), float("inf"))
    if wrong := [score for score in scores if not low <= score <= high]:
        raise invalid(f"scores: expected numbers from {low:g} to {high:g}, got {wrong[0]:g}")


@router.delete("/{id}")
@permits(RATE)
async def take_back(name: Identifier, id: Id, app: AppStateDep, caller: CallerDep, rater: Rater = None) -> AuditReply:
    """Take back what one said of an audit; without anything said it changes nothing."""
    experiment = await _audited(app, name)
    answered, can_count = await app.store.answer(
        name, id, _rater(caller, rater), None, batch=A_BATCH, instance=experiment.instance
    )
    app.polls.changed(name)
    return AuditReply(answered=answered, counted=can_count)


@router.get("")
@permits(READ)
async def get_counts(name: Identifier, app: AppStateDep, caller: CallerDep) -> AuditCounts:
    """Progress of people, by rater, and their comments; gives nobody an audit."""
    await _audited(app, name)
    stored = await app.store.audits(name)
    said = await app.store.said(name) if caller.previews else []
    newest = {(one.audit, one.rater): one for one in said if one.comment}
    answered = Counter(rater for one in stored.audits.values() for rater in one.answered_by)
    held = Counter(lease.rater for lease in stored.leases)
    return AuditCounts(
        answered=stored.answered,
        open=stored.open,
        unanswered=stored.unanswered,
        raters=[
            models.RaterCount(rater=rater, answered=answered[rater], open=held[rater])
            for rater in sorted({rater for one in stored.audits.values() for rater in one.raters})
        ],
        comments=[
            models.AuditComment(audit=one.audit, index=one.index, rater=one.rater, comment=one.comment, when=one.when)
            for one in sorted(newest.values(), key=attrgetter("when"))
        ],
    )
