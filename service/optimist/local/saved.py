"""The evaluation that a comparison has reached, saved under what the comparison is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from optimist.local.embedding import Embedding
from optimist.local.evaluation import Evaluation
from optimist.local.saving import FORMAT
from optimist.local.sources import Source
from optimist_client.errors import FixError
from optimist_client.metrics import Metric

_KEPT, _BYTES = 20, 2 * 2**30
"""How many saved evaluations are kept, the newest, and how many bytes of them; the one of this comparison always."""


def place_of(
    home: Path,
    evaluation: Evaluation,
    metrics: Sequence[Metric],
    embedding: Embedding,
    sources: Sequence[Source],
    origin: str,
) -> Path | None:
    """The file of the saved evaluation of this very question; None if samples have no contents to tell them by."""
    digests = [source.digest() for source in sources]
    if not embedding.name or not all(digests):
        return None
    plain = [json.loads(one.model_dump_json(exclude={"reference", "kernel", "prompt_kernel"})) for one in metrics]
    kernels = [f"{one.setting('kernel')!r}" for one in metrics]
    names = [source.name for source in sources]
    asked = [FORMAT, evaluation.settings, plain, kernels, embedding.name, names, digests, origin]
    text = json.dumps(asked, sort_keys=True, default=str)
    return home / "compare" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def loaded(file: Path, evaluation: Evaluation) -> Evaluation | None:
    """The saved evaluation; None if there is none that can be read, or it is of other generators."""
    try:
        found = Evaluation.load(file)
    except (FixError, OSError):
        return None  # what was embedded is cached, so that it is told again in no time
    return found if found.generators == evaluation.generators else None


def save(file: Path, evaluation: Evaluation) -> None:
    """Save it, and drop the oldest of too many."""
    file.parent.mkdir(parents=True, exist_ok=True)
    evaluation.save(file)
    others = sorted(file.parent.glob("*.npz"), key=lambda one: one.stat().st_mtime, reverse=True)
    sizes = accumulate(one.stat().st_size for one in others)
    for place, (one, size) in enumerate(zip(others, sizes, strict=True)):
        if one != file and (place >= _KEPT or size > _BYTES):
            one.unlink(missing_ok=True)
