"""reference/dependencies.md from the metadata of the installed packages that this project requires."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

INTRODUCTION = """# Dependencies and their licences

This page lists the packages that each extra installs, including indirect dependencies, with the licences from the
metadata of the versions in `constraints.txt`. Every install has the SDK's packages. Builds of torch for CUDA also
install NVIDIA's libraries, under NVIDIA's licence. The dashboard contains no third-party code; the page
`/docs` is Swagger UI (Apache-2.0) from the fastapi-offline wheel.
"""
EXTRAS = {"": "The SDK (no extra)", "server": "`server`", "scoring": "`scoring`", "simulate": "`simulate`"}
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_PREFIX = "License :: "


def page() -> str:
    """The whole page: for each extra a table of the packages that the extras before it do not install."""
    parts = [INTRODUCTION]
    seen: set[str] = set()
    for extra, title in EXTRAS.items():
        brought = _closure(extra) - seen
        seen |= brought
        rows = [f"| {name} | {_licence(distribution(name))} |" for name in sorted(brought)]
        parts.append("\n".join([f"## {title}\n", "| package | licence |", "| --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def _closure(extra: str) -> set[str]:
    """The packages that an extra of this project needs, directly or indirectly, without the project itself."""
    found: set[str] = set()
    todo = [("optimist", frozenset({extra}))]
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        if name.startswith(("nvidia-", "triton", "cuda-")):
            continue
        if name != "optimist":
            found.add(name)
        todo += [
            (canonicalize_name(needed.name), frozenset(needed.extras))
            for needed in map(Requirement, _requirements(name, extras))
            if any(needed.marker is None or needed.marker.evaluate({"extra": one}) for one in extras or {""})
        ]
    return found


def _requirements(name: str, extras: frozenset[str]) -> list[str]:
    if name != "optimist":
        return distribution(name).requires or []
    # The metadata of an editable install can be outdated.
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    return [
        *project["dependencies"],
        *(one for extra in extras if extra for one in project["optional-dependencies"][extra]),
    ]


def _licence(package: Distribution) -> str:
    """From its metadata: the SPDX expression, else the classifiers, else the first line of the licence field."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [
        one.removeprefix(_PREFIX).split(" :: ")[-1]
        for one in metadata.get_all("Classifier") or []
        if one.startswith(_PREFIX) and one != _PREFIX + "OSI Approved"
    ]
    if classifiers:
        return ", ".join(classifiers)
    first = (metadata.get("License") or "").strip().splitlines()
    return re.sub(r"\s+", " ", first[0]) if first else "unknown"
