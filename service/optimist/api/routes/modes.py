"""The route of modes: the kinds of samples that a generator produces, computed by a scorer on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from optimist.api.asked import metric_called
from optimist.api.context import ContextDep
from optimist.api.problems import invalid
from optimist.api.requested import missing, requested
from optimist.experiments.state import needed_to_fit
from optimist.records import NotFound
from optimist_client.metrics import Metric
from optimist_client.models import Experiment, Identifier, Modes

router = APIRouter(prefix="/v1/experiments/{name}/generators/{generator:path}", tags=["generators"])


@router.get("/modes")
async def get_modes(
    name: Identifier,
    generator: str,
    context: ContextDep,
    count: Annotated[int, Query(ge=1, le=20)] = 5,
    samples: Annotated[int, Query(ge=1, le=32)] = 8,
    metric: Annotated[str, Query(description="Label of a watched metric; by default the one that decides")] = "",
) -> Modes:
    """The generator's largest modes with their most typical samples (FKEA), and the score by type of prompt.

    If no scorer computes them within 10 seconds, an earlier result is returned and marked as stale.
    """
    experiment = await context.experiment(name)
    asked, label = metric_called(experiment, metric)
    if "modes" not in asked.offers:
        raise invalid(f"modes need a kernel, and the metric {asked.shown_label!r} has no kernel")
    ordinal = await context.ordinal(experiment, generator)
    wanted = _Wanted(experiment, ordinal, asked, label)
    told = await _position(context, wanted)
    modes = await _awaited(context, wanted, told)
    return modes.model_copy(
        update={
            "stale": modes.position < told,
            "modes": [mode.model_copy(update={"samples": mode.samples[:samples]}) for mode in modes.modes[:count]],
            "prompt_groups": [
                group.model_copy(update={"prompts": group.prompts[:samples]}) for group in modes.prompt_groups[:count]
            ],
        }
    )


@dataclass(frozen=True)
class _Wanted:
    """Whose modes are wanted, by which metric."""

    experiment: Experiment
    ordinal: int
    metric: Metric
    label: str
    """As the store calls the metric: "" for the one that decides."""


async def _position(context: ContextDep, wanted: _Wanted) -> int:
    """The generator's log position.

    Raises NotFound if the experiment was deleted, `ApiError` 422 if no modes can be computed from its batches so far.
    """
    experiment = wanted.experiment
    stored = await context.store.state(experiment.config.name)
    if stored.instance != experiment.instance:
        raise NotFound(f"experiment {experiment.config.name!r} was deleted and created again")
    generator = stored.generators[wanted.ordinal]
    if generator.batches == 0:
        raise invalid(f"generator {generator.name!r} has no samples yet")
    if generator.aside_count >= generator.batches:
        reasons = [f": {aside.reason}" for aside in generator.aside[:1]]
        raise invalid(f"no batch of generator {generator.name!r} can be read{''.join(reasons)}")
    needed = needed_to_fit(wanted.metric, len(stored.active))
    if needed and await context.store.fitted(experiment.config.name, wanted.label) is None:
        lacking = missing(stored, needed)
        if lacking:
            raise invalid(f"the kernel bandwidth is not fixed yet: it takes {lacking}")
    return generator.seq


async def _awaited(context: ContextDep, wanted: _Wanted, position: int) -> Modes:
    """The modes at log position `position` or later, or the latest available. Raises `ApiError` 503 without any."""
    name, ordinal, label = wanted.experiment.config.name, wanted.ordinal, wanted.label

    async def look() -> tuple[str | None, bool]:
        made = await context.store.modes(name, ordinal, label)
        return (None, False) if made is None else (made[1], made[0] >= position)

    async def want() -> None:
        await _position(context, wanted)  # raises if all batches turn out to be unreadable
        await context.store.want_modes(name, ordinal, label)

    return Modes.model_validate_json(await requested(look, want))
