"""Reads the contexts of an ask: the embeddings of the prompts that it wants picks for, with the goal "route"."""

from __future__ import annotations

import numpy as np

from optimist.api.problems import invalid
from optimist.dispatch.contexts import AskedContexts
from optimist_client.models import AskRequest, Experiment

MOST_NUMBERS = 2**19
"""Numbers of all contexts of one ask."""
PICK_BYTES = 4096
"""About what a pick takes in Redis, and on its disk, without its context."""


def read_contexts(experiment: Experiment, request: AskRequest) -> AskedContexts | None:
    """The contexts of an ask; None where its experiment has another goal.

    Raises `ApiError` 422 where contexts are missing, where there should be none, and where one has another width than
    the experiment's or a number that float32 cannot hold.
    """
    config, given = experiment.config, request.contexts
    if config.goal != "route":
        for field in ("contexts", "prompts"):
            if getattr(request, field) is not None:
                raise invalid(f"{field}: only asks of the goal 'route' have them; the goal is {config.goal!r}")
        return None
    width, texts = config.context or 0, request.prompts
    if given is None:
        raise invalid(
            f"contexts: expected the embedding of each prompt that a pick is wanted for, {width:,} numbers each; the "
            "goal is 'route'"
        )
    if texts is not None and len(texts) != len(given):
        raise invalid(f"prompts: expected one for each of the {len(given):,} contexts, got {len(texts):,}")
    if len(given) * width > MOST_NUMBERS:
        most = max(1, MOST_NUMBERS // width)
        raise invalid(f"contexts: expected at most {most:,} of {width:,} numbers in one ask, got {len(given):,}")
    for place, context in enumerate(given):
        if len(context) != width:
            raise invalid(f"contexts.{place}: expected {width:,} numbers, got {len(context):,}")
    with np.errstate(over="ignore"):
        rows = np.array(given, dtype=np.float64).astype(np.float32)
    if not np.isfinite(rows).all():
        raise invalid("contexts: expected numbers that float32 can hold")
    return AskedContexts(rows, texts)


def bytes_of(experiment: Experiment, request: AskRequest) -> int:
    """About what the picks of an ask take in Redis, with what is kept of their contexts."""
    if request.contexts is None:
        return request.count * PICK_BYTES
    texts = sum(map(len, request.prompts or ())) * (1 + experiment.config.tries)
    return len(request.contexts) * PICK_BYTES + 4 * sum(map(len, request.contexts)) + texts
