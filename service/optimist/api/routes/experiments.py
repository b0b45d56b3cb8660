"""Routes of experiments: create, read, delete, report."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from optimist.api.app_state import AppState, AppStateDep, metric_called
from optimist.api.bodies.objects import LongRoute
from optimist.api.middleware.access import CallerDep
from optimist.api.middleware.permissions import ADMINISTER, READ, READ_OWN, permits
from optimist.api.pages import CursorQuery, LimitQuery, count_answer, place_of, respond
from optimist.api.problems import invalid
from optimist.api.references import check_embeddings, check_rows_kept, stored_reference
from optimist.archive.importing import check_staying
from optimist.experiments.admission import check_maps, columns_of, fits_contexts, kernels_of, too_wide
from optimist.experiments.anomalies import anomalies_among
from optimist.experiments.outlines import label_controls, labelled
from optimist.experiments.report import contrast_of, gate_on
from optimist.records import Conflict
from optimist.store.experiments import traits_of
from optimist_client import tensors
from optimist_client.config import RULES
from optimist_client.differences import differences, refusal
from optimist_client.errors import FixError
from optimist_client.margins import parsed
from optimist_client.models import (
    AnomalousBatch,
    Contrast,
    Experiment,
    ExperimentChange,
    ExperimentConfig,
    ExperimentPage,
    Gate,
    Identifier,
    ReferenceInfo,
    Report,
)

router = APIRouter(prefix="/v1/experiments", tags=["experiments"], route_class=LongRoute)


@router.get("", response_model=ExperimentPage)
@permits(READ_OWN)
async def list_experiments(
    request: Request,
    app: AppStateDep,
    caller: CallerDep,
    if_none_match: Annotated[str | None, Header()] = None,
    limit: LimitQuery = 50,
    cursor: CursorQuery = None,
    tag: Annotated[str | None, Query(description="Only experiments with this tag")] = None,
    search: Annotated[
        str | None,
        Query(description="Only those with this text in their name, generators, tags or note, in whatever case"),
    ] = None,
) -> Response:
    """Summaries of the experiments that the caller's key is good for, newest first.

    An experiment that is there all the while is in exactly one of the pages, whatever is created or deleted meanwhile.
    ETag as of reports; an answer to one who sends it may be a second old.
    """
    after, old = place_of(cursor), if_none_match is not None
    body = await app.polls.page(limit, after, caller.experiments, tag, search, old=old)
    count_answer(request, body.text)
    return respond(body, if_none_match)


@router.post("")
@permits(ADMINISTER)
async def create_experiment(
    config: ExperimentConfig,
    app: AppStateDep,
    name: Annotated[
        Identifier | None, Query(description="The name once more, for a proxy that chooses a service by it")
    ] = None,
) -> Experiment:
    """Create an experiment. The same config under the same name again returns the existing one; another one: 409."""
    if name not in (None, config.name):
        raise invalid(f"name: expected {config.name!r} as in the body, got {name!r}")
    if len(config.generators) > app.settings.max_generators:
        raise invalid(f"generators: expected at most {app.settings.max_generators}")
    if await app.store.config(config.name) is None:
        _check_lease(config.lease, app.settings.max_lease)
        new = await _pinned(config, app)
        text = new.model_dump_json()
        async with app.redis_health.room_for(len(text)):
            await app.store.reserve(config.name, app.settings.max_experiments)
            await check_staying(app.store, new)
            with contextlib.suppress(Conflict):  # somebody else was faster, perhaps with the same config
                await app.store.create_experiment(
                    config.name,
                    text,
                    config.generators,
                    config.rescore_growth,
                    **traits_of(new),
                )
    (controls,) = await app.store.labels([config.name])
    existing = labelled(await app.experiment(config.name), controls)
    if different := differences(existing, config):
        raise Conflict(refusal(config.name, different))
    return existing


def _check_lease(lease: float, max_lease: float) -> None:
    """Raise `ApiError` 422 where a lease is longer than the service gives."""
    if lease > max_lease:
        default = ", the default" if lease == ExperimentConfig.model_fields["lease"].default else ""
        raise invalid(f"lease: expected at most {max_lease:g} seconds, got {lease:g}{default}")


async def _pinned(config: ExperimentConfig, app: AppState) -> Experiment:
    """The experiment with what is settled at its creation: the widths of its batches, and the references as they are.

    Raises `ApiError` 404 for a reference that is not there, 409 where embeddings differ, 422 for sizes that do not fit.
    """
    references = await _references(config, app)
    try:
        columns = columns_of(config, {label: reference.dimension for label, reference in references.items()})
        compared = [(config.metrics[label].first_name, reference) for label, reference in references.items()]
        experiment = Experiment(
            config=config,
            columns=columns,
            scales={array: reference.scale for array, reference in reversed(compared)},
            references={reference.name: reference.digest for reference in references.values()},
            created=time.time(),
            instance=uuid.uuid4().hex,
            rules=RULES,
        )
        check_maps(experiment, app.settings.max_map)
    except ValueError as error:
        raise invalid(str(error)) from None
    if refusal := too_wide(experiment, app.settings.max_dimension):
        raise invalid(refusal)
    return experiment


async def _references(config: ExperimentConfig, app: AppState) -> dict[str, ReferenceInfo]:
    """The references of the metrics by label; those compared with one array must be of the same embedding."""
    references: dict[str, ReferenceInfo] = {}
    embeddings = config.embedding_names
    for label, metric in config.metrics.items():
        if (named := metric.setting("reference")) is not None:
            reference = references[label] = await stored_reference(app.store, named)
            check_embeddings(reference, embeddings.get(metric.first_name))
            check_rows_kept(reference, metric)
            if reference.embedding is not None:
                embeddings[metric.first_name] = reference.embedding
    return references


@router.get("/{name}")
@permits(READ)
async def get_experiment(name: Identifier, app: AppStateDep) -> Experiment:
    """One experiment's config, and the bandwidths that its first samples have fixed."""
    experiment, sigmas = await app.experiment(name), dict[str, float]()
    (controls,) = await app.store.labels([name])
    experiment = labelled(experiment, controls)
    for place, (label, metric) in enumerate(experiment.config.metrics.items()):
        if fits_contexts(experiment.config, metric) or any(kernel.is_open for kernel in kernels_of(metric).values()):
            fitted = await app.store.fitted(name, label)
            for part, array in ({} if fitted is None else tensors.decode(fitted)).items():
                if part.endswith(".sigma"):
                    sigmas[f"{label}." * bool(place) + part.removesuffix(".sigma")] = float(array[0])
    return experiment.model_copy(update={"bandwidths": sigmas}) if sigmas else experiment


@router.patch("/{name}")
@permits(ADMINISTER)
async def change_experiment(name: Identifier, change: ExperimentChange, app: AppStateDep) -> Report:
    """Stop an experiment or go on with it; change its budgets, its stopping, how long asks wait, its tags or note.

    Going on after a decision drops it and, unless `stop` says otherwise, runs on without deciding again.
    """
    experiment = await app.experiment(name)
    store, state = app.store, await app.state(experiment)
    fields: dict[str, str] = {}
    if change.budget is not None:
        fields["budget"] = str(change.budget)
    if change.max_cost is not None:
        if unpriced := state.unpriced:
            raise invalid(f"max_cost: every generator needs a cost; {', '.join(unpriced)} have none")
        fields["max_cost"] = repr(change.max_cost)
    if change.max_wait is not None:
        fields["max_wait"] = repr(change.max_wait)
    stop = False if change.stop is None and change.state == "running" and state.is_decided else change.stop
    if stop is not None:
        fields["stop"] = str(int(stop))
    if change.state is not None:
        fields["stopped"] = "1" if change.state == "stopped" else ""
    await store.control(name, fields | label_controls(change.tags, change.note))
    if change.state == "running" and state.stored.decision is not None:
        await store.reopen(name, state.stored.decision)
    app.polls.changed(name)
    app.wake(name)
    return await app.report(experiment)


@router.delete("/{name}", status_code=204)
@permits(ADMINISTER)
async def delete_experiment(name: Identifier, app: AppStateDep) -> None:
    """Delete an experiment with its log, picks and estimates, and with its copies of trials."""
    experiment, store = await app.experiment(name), app.store
    await store.delete_experiment(name)
    for copy in await store.copies.ended_copies(await store.copies.indexed(), experiment.instance):
        await store.copies.delete_experiment(copy)


@router.get("/{name}/report", response_model=Report)
@permits(READ)
async def get_report(
    name: Identifier,
    app: AppStateDep,
    if_none_match: Annotated[str | None, Header()] = None,
    after: Annotated[
        int | None, Query(ge=0, description="Batches known: adds `progress`, what came after them")
    ] = None,
) -> Response:
    """Standings, regret, pick ratio and decision; answers 304 to the `ETag` it gave when nothing has changed.

    It is made once for all who ask while nothing has changed. With `after` it has what charts need besides, thinned out
    so that it stays small, and may be a second old.
    """
    if after is not None:
        return respond(await app.polls.report(name, after), if_none_match)
    return respond((await app.polls.now(name)).body, if_none_match)


@router.get("/{name}/contrast")
@permits(READ)
async def get_contrast(
    name: Identifier,
    app: AppStateDep,
    generator: Annotated[str, Query(description="The generator that is compared")],
    against: Annotated[str, Query(description="The generator that it is compared with")],
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Contrast:
    """The score of `generator` compared with `against`: how much worse it is, and the standard error of the difference.

    In a paired experiment the error is computed from common samples. 422 while one of the two has no estimate.
    """
    experiment = await app.experiment(name)
    label = metric_called(experiment, metric).shown_label
    state = await app.state(experiment)
    try:
        return contrast_of(state, generator, against, label)
    except ValueError as error:
        raise invalid(str(error)) from None


@router.get("/{name}/gate")
@permits(READ)
async def get_gate(
    name: Identifier,
    app: AppStateDep,
    candidate: Annotated[str, Query(description="The generator that is to be at least as good")],
    baseline: Annotated[str, Query(description="The generator that it is compared with")],
    margin: Annotated[
        list[str],
        Query(
            description="By how much it may be worse: a difference, or a share of the baseline's score as 1%; of "
            "another metric than the one that decides as LABEL=1%",
            max_length=64,
        ),
    ],
) -> Gate:
    """The gate: is `candidate` at least as good as `baseline`, but for the margins? Yes, no or open, at every look."""
    experiment = await app.experiment(name)
    state = await app.state(experiment)
    try:
        return gate_on(state, candidate, baseline, parsed(margin, [experiment.config.metric.shown_label]))
    except FixError as error:
        raise invalid(str(error)) from None


@router.get("/{name}/anomalies")
@permits(READ)
async def get_anomalies(name: Identifier, app: AppStateDep) -> list[AnomalousBatch]:
    """The batches that repeat earlier ones, or are on another scale than others.

    Newest first. They count unless `retracted`. At most 256 copies of an experiment are listed, and 256 batches of a
    generator on another scale; those that were accepted are left out.
    """
    state = await app.state(await app.experiment(name))
    return anomalies_among(state.contenders, await app.anomalous(state))
