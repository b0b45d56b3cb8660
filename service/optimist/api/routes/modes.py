"""The route of modes: what a generator makes, made by a scorer when somebody asks."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query

from optimist.api.context import ContextDep
from optimist.api.problems import ApiError, invalid
from optimist.dispatch.views import needed_to_fit
from optimist.store import Look, NotFound
from optimist_client.models import Experiment, Identifier, Modes

router = APIRouter(prefix="/v1/experiments/{name}/generators/{generator:path}", tags=["generators"])

POLL = 0.05
ASK_AGAIN = 1.0
"""Seconds between looks for the answer, and between asking for it: a scorer may have missed the first time."""
PATIENCE = 10.0
NAMED = 5
"""Most generators that a refusal names."""


@router.get("/modes")
async def get_modes(
    name: Identifier,
    generator: str,
    context: ContextDep,
    count: Annotated[int, Query(ge=1, le=20)] = 5,
    samples: Annotated[int, Query(ge=1, le=32)] = 8,
) -> Modes:
    """The generator's largest modes with the samples that show each (FKEA), and the score by type of prompt.

    Answers what was made earlier, marked stale, where no scorer makes it anew within 10 seconds.
    """
    experiment = await context.experiment(name)
    if "modes" not in experiment.config.kind.offers:
        raise invalid(f"the metric {experiment.config.kind.name!r} has no kernel, hence no modes")
    ordinal = await context.ordinal(name, generator)
    told = await _position(context, experiment, ordinal)
    modes = await _awaited(context, experiment, ordinal, told)
    return modes.model_copy(
        update={
            "stale": modes.position < told,
            "modes": [mode.model_copy(update={"samples": mode.samples[:samples]}) for mode in modes.modes[:count]],
            "prompt_groups": [
                group.model_copy(update={"prompts": group.prompts[:samples]}) for group in modes.prompt_groups[:count]
            ],
        }
    )


async def _position(context: ContextDep, experiment: Experiment, ordinal: int) -> int:
    """The generator's log position. Raises NotFound where the experiment is gone, `ApiError` 422 where no scorer could
    make modes of what has come so far.
    """
    look = await context.store.look(experiment.config.name)
    if look.instance != experiment.instance:
        raise NotFound(f"experiment {experiment.config.name!r} was made again since")
    generator = look.generators[ordinal]
    if generator.seq == 0:
        raise invalid(f"generator {generator.name!r} has no samples yet")
    if generator.aside_count >= generator.batches:
        reasons = [f": {aside.reason}" for aside in generator.aside[:1]]
        raise invalid(f"no batch of generator {generator.name!r} can be read{''.join(reasons)}")
    needed = needed_to_fit(experiment.config, len(look.active))
    if needed and await context.store.fitted(experiment.config.name) is None:
        missing = _missing(look, needed)
        if missing:
            raise invalid(f"the kernel is not fixed yet: it takes {missing}")
    return generator.seq


def _missing(look: Look, needed: int) -> str:
    """Which active generators lack samples of those `needed` of each, in words; "" where none does."""
    lacking = [generator for generator in look.active if generator.samples < needed]
    named = [f"{needed - generator.samples} more samples of {generator.name!r}" for generator in lacking[:NAMED]]
    others = [f"of {len(lacking) - NAMED} others"] if len(lacking) > NAMED else []
    return ", ".join(named + others)


async def _awaited(context: ContextDep, experiment: Experiment, ordinal: int, position: int) -> Modes:
    """The modes at `position` of the log or later, or the latest there are. Raises `ApiError` 503 where none are."""
    name = experiment.config.name
    deadline, ask_at = time.monotonic() + PATIENCE, 0.0
    while True:
        made = await context.store.modes(name, ordinal)
        now = time.monotonic()
        if made is not None and (made[0] >= position or now >= deadline):
            return Modes.model_validate_json(made[1])
        if now >= deadline:
            raise ApiError(503, "no-scorer", "Not scored yet", "no scorer answered in time", action="retry")
        if now >= ask_at:
            await _position(context, experiment, ordinal)  # what came may turn out to be unreadable
            await context.store.want_modes(name, ordinal)
            ask_at = now + ASK_AGAIN
        await asyncio.sleep(POLL)
