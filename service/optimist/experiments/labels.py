"""Tags and notes: those that experiments were created with, until somebody changes them. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import TypeAdapter

from optimist_client.labels import Note, Tags
from optimist_client.models import Experiment, ExperimentConfig

_TAGS: TypeAdapter[list[str]] = TypeAdapter(Tags)
_NOTE: TypeAdapter[str] = TypeAdapter(Note)


def label_controls(tags: list[str] | None, note: str | None) -> dict[str, str]:
    """What the store keeps of changed tags or a changed note, as JSON: an empty control would be one that is gone."""
    changed = {"tags": tags, "note": note}
    return {name: json.dumps(value) for name, value in changed.items() if value is not None}


def labels_of(config: ExperimentConfig, controls: Mapping[str, str]) -> tuple[list[str], str]:
    """The tags and the note as they are now. Raises ValueError for controls that are not those of `label_controls`."""
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
    """Whether a config has this tag, and contains the text in its name, generators, tags or note, in whatever case."""
    if tag is not None and tag not in config.tags:
        return False
    texts = (config.name, *config.generators, *config.tags, config.note)
    return not search or any(search.casefold() in text.casefold() for text in texts)
