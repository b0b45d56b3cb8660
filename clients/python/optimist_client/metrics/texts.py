"""Metrics with their settings as texts: `kid`, `mean:reads=clipscore,higher_is_better=false`, `rke:kernel.sigma=10`."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from optimist_client.errors import FixError
from optimist_client.metrics.base import find

_COMMA = re.compile(r",(?![^\[{]*[\]}])")
"""A comma outside of brackets."""
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?\s*", re.IGNORECASE)


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a metric given as text. Raises FixError as `parts`, and for an unknown metric."""
    name, settings = parts(text)
    find(name)
    return name, settings


def parts(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings in a text such as "ucb:bound=theorem,delta=0.1". Raises FixError for another form.

    Values are JSON, `inf`, or else text; "range=0,10" is the list [0, 10]. A dot names a part of a setting, as in
    `kernel.sigma`.
    """
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for path, equals, value in (pair.partition("=") for pair in _pairs(rest)):
        if not (path and equals):
            raise FixError(f"expected name:setting=value,setting=value; got {text!r}")
        *parents, last = path.split(".")
        branch = settings
        for parent in parents:
            branch = branch.setdefault(parent, {})
        if last in branch:
            raise FixError(f"{text!r}: expected each setting once, got {path} twice")
        branch[last] = _value(value)
    return name, settings


def _pairs(text: str) -> list[str]:
    """The settings in a text. Numbers behind a comma are further parts of the value before it: "range=[0,10]"."""
    groups: list[list[str]] = []
    for part in _COMMA.split(text) if text else ():
        if groups and _NUMBER.fullmatch(part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [first if not more else "=[".join(f"{first},{','.join(more)}]".split("=", 1)) for first, *more in groups]


def split(text: str) -> list[str]:
    """The texts in one such as "kid,rke" or "kid,vendi:kernel.sigma=10,order=2"."""
    texts: list[str] = []
    for part in _COMMA.split(text):
        if texts and ("=" in part.partition(":")[0] or _NUMBER.fullmatch(part)):
            texts[-1] += f",{part}"
        else:
            texts.append(part.strip())
    return texts


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return math.inf if text == "inf" else text
