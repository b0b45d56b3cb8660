"""What lists read of an experiment: everything but its prompts, which can have 80 MB. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from optimist.experiments.labels import labelled, matches
from optimist_client.models import Experiment


@dataclass(frozen=True, slots=True)
class Outline:
    """An experiment without its prompts."""

    experiment: Experiment
    """The config has no prompts, whether the experiment has some or not: no picks can be made of it."""
    prompts: int | None
    """How many prompts there are; None without prompts."""
    prompts_digest: str | None
    """Their SHA-256, as `prompts_digest` makes it."""
    size: int
    """Bytes of `experiment` as JSON."""

    @classmethod
    def of(cls, experiment: Experiment) -> Outline:
        """The outline of a whole experiment."""
        prompts = experiment.config.prompts
        config = experiment.config.model_copy(update={"prompts": None})
        slim = experiment.model_copy(update={"config": config})
        size = len(slim.model_dump_json())
        if prompts is None:
            return cls(slim, None, None, size)
        return cls(slim, len(prompts), prompts_digest(prompts), size)

    def with_labels(self, controls: Mapping[str, str]) -> Outline:
        """The outline with the tags and the note of these controls, as `labelled` takes them."""
        return replace(self, experiment=labelled(self.experiment, controls))

    def matches(self, tag: str | None, search: str | None) -> bool:
        """As `labels.matches` of its config."""
        return matches(self.experiment.config, tag, search)


def prompts_digest(prompts: Sequence[str]) -> str:
    """SHA-256 (hex) of a JSON list of the prompts in UTF-8, with one space after each comma and nothing escaped that
    need not be."""
    return hashlib.sha256(json.dumps(list(prompts), ensure_ascii=False).encode()).hexdigest()
