"""The part of an experiment that lists read: all but its prompts, which can have 80 MB; with its present tags and
note."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from optimist_client.labels import Note, Tags
from optimist_client.models import Experiment, ExperimentConfig

_TAGS: TypeAdapter[list[str]] = TypeAdapter(Tags)
_NOTE: TypeAdapter[str] = TypeAdapter(Note)


def label_controls(tags: list[str] | None, note: str | None) -> dict[str, str]:
    """The controls that keep changed tags or a changed note, as JSON: an empty control would be one that is gone."""
    changed = {"tags": tags, "note": note}
    return {name: json.dumps(value) for name, value in changed.items() if value is not None}


def labels_of(config: ExperimentConfig, controls: Mapping[str, str]) -> tuple[list[str], str]:
    """The tags and the note as they are now. Raises ValueError for other controls than `label_controls` makes."""
    tags = _TAGS.validate_json(controls["tags"]) if "tags" in controls else config.tags
    return tags, _NOTE.validate_json(controls["note"]) if "note" in controls else config.note


def labelled(experiment: Experiment, controls: Mapping[str, str]) -> Experiment:
    """The experiment with the tags and the note that it has now in its config."""
    if not controls:
        return experiment
    tags, note = labels_of(experiment.config, controls)
    config = experiment.config.model_copy(update={"tags": tags, "note": note})
    return experiment.model_copy(update={"config": config})


def matches(config: ExperimentConfig, tag: str | None, search: str | None) -> bool:
    """True if a config has this tag, and contains the text in its name, generators, tags or note, in whatever case."""
    if tag is not None and tag not in config.tags:
        return False
    texts = (config.name, *config.generators, *config.tags, config.note)
    return not search or any(search.casefold() in text.casefold() for text in texts)


@dataclass(frozen=True, slots=True)
class Outline:
    """An experiment without its prompts."""

    experiment: Experiment
    """The config has no prompts, whether the experiment has some or not: no picks can be made of it."""
    prompts: int | None
    """The number of prompts; None without prompts."""
    prompts_digest: str | None
    """SHA-256 of the prompts, as `prompts_digest` makes it."""
    size: int
    """Bytes of `experiment` as JSON."""

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> Outline:
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
        """True if the config `matches` tag and text."""
        return matches(self.experiment.config, tag, search)


def prompts_digest(prompts: Sequence[str]) -> str:
    """SHA-256 (hex) of a JSON list of the prompts in UTF-8, with one space after each comma and nothing escaped that
    need not be."""
    return hashlib.sha256(json.dumps(list(prompts), ensure_ascii=False).encode()).hexdigest()
