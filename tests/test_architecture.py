"""The rooms keep to themselves, and the documents say what is so."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args

import pytest

from optimist.local.config import OF_SERVICES, SETTINGS
from optimist.metrics.implementations import implementation
from optimist.routing.answers.policy import POLICIES
from optimist_client.config import BoundOptions, ExperimentConfig, PolicyName
from optimist_client.goals import Best, BestMixture
from optimist_client.metrics import declared
from tests.support.places import ROOT

TORCH, REDIS = "torch", "redis"
MAY_LOAD: dict[str, set[str]] = {
    "records": set(),
    "anomalies": set(),
    "references": set(),
    "estimates": set(),
    "datasets": set(),
    "policies": set(),
    "experiments": set(),
    "leaderboards": set(),
    "routing.answers": set(),
    "routing.gain": set(),
    "metrics": {TORCH},
    "estimation": {TORCH},
    "local": {TORCH},
    "insight": set(),
    "store": {REDIS},
    "archive": {REDIS},
    "dispatch": {REDIS},
    "api": {REDIS},
    "scoring": {TORCH, REDIS},
    "server": {REDIS},
    "commands": set(),
    "simulation": {TORCH, REDIS},
    "routing.learning": {TORCH},
    "routing.simulation": {TORCH, REDIS},
    "evaluating": set(),
}
"""Which of the two large libraries each room may load."""
LOADED = """
import pkgutil, sys
from importlib import import_module
for room in sys.argv[1:]:
    package = import_module(f"optimist.{room}")
    for found in pkgutil.walk_packages(package.__path__, f"optimist.{room}."):
        if not found.name.endswith(".__main__"):
            try:
                import_module(found.name)
            except ModuleNotFoundError as error:  # of an extra that the extra `test` leaves out
                if error.name.startswith("optimist"):
                    raise
    print(room, *({"torch", "redis"} & sys.modules.keys()))
"""


@pytest.mark.long
@pytest.mark.parametrize("may", [set(), {TORCH}, {REDIS}], ids=["neither", TORCH, REDIS])
def test_a_room_loads_only_what_it_may(may: set[str]):
    rooms = [room for room, loaded in MAY_LOAD.items() if loaded == may]
    # One after the other in one process: importing torch takes seconds.
    done = subprocess.run([sys.executable, "-c", LOADED, *rooms], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = [line.split() for line in done.stdout.splitlines()]
    assert [room for room, *_ in loaded] == rooms
    assert not [(room, too_much) for room, *found in loaded if (too_much := {*found} - may)]


def test_every_room_has_its_place():
    folder = ROOT / "service" / "optimist"
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")} - {"routing"}
    rooms |= {f"routing.{path.parent.name}" for path in folder.glob("routing/*/__init__.py")}
    assert rooms == MAY_LOAD.keys()


def test_wrong_input_has_one_error():
    """What callers give is refused by FixError; ValueError is for what Redis holds, and what parts of it are given."""
    code = [path for folder in ("service/optimist", "clients/python") for path in (ROOT / folder).rglob("*.py")]
    inside = {"records", "store", "scoring", "server"}
    others = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in code
        if not inside & set(path.parts) and path.name != "stored.py"
        for found in re.findall(r"raise ValueError|class \w+\(ValueError\)", path.read_text())
    ]
    assert not others, "raise optimist_client.errors.FixError, and say what was expected"


def test_the_wire_knows_the_policies_that_exist():
    # pak-ucb keeps every sample, and is only simulated.
    assert set(get_args(PolicyName)) == {*Best.policies, *BestMixture.policies, *POLICIES} - {"pak-ucb"}


def test_what_a_metric_declares_is_implemented_and_can_be_asked_for():
    for metric in declared().values():
        assert {"influence", *getattr(implementation(metric.name), "BOUNDS", {})} == set(metric.bounds)
        assert metric.strict <= set(metric.bounds)
        assert set().union(*metric.bounds.values()) <= set(BoundOptions.model_fields)
        assert not metric.settings() & set(ExperimentConfig.model_fields), "a setting beside its metric is recognised"
        assert metric.needs <= metric.settings() | {"prompts"}
        assert {field for field in metric.arrays.values() if field} | set(metric.kernels) <= metric.settings()


GOALS = {"best", "mixture", "route"}
OF_GOALS = ("experiments/goals/", "optimist_client/goals.py")
"""Where goals may be compared: by their own classes."""


def _is_goal(node: ast.expr | ast.pattern) -> bool:
    """Whether an expression is a goal, or the name of one, or holds such names."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(map(_is_goal, node.elts))
    if isinstance(node, ast.MatchValue):
        return _is_goal(node.value)
    if isinstance(node, ast.Constant):
        return node.value in GOALS
    if isinstance(node, ast.Call):  # data.get("goal")
        return any(isinstance(one, ast.Constant) and one.value == "goal" for one in node.args)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "goal"
    return getattr(node, "attr", getattr(node, "id", "")).strip("_") == "goal"


def _compared_goals(tree: ast.AST) -> Iterator[int]:
    """The lines in which goals are compared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_is_goal, (node.left, *node.comparators))):
            yield node.lineno
        if isinstance(node, ast.match_case) and _is_goal(node.pattern):
            yield node.pattern.lineno


@pytest.mark.parametrize(
    "code",
    [
        "config.goal == 'route'",
        "goal not in known",
        "data.get('goal') != what",
        "given['goal'] == it",
        "name in ('best', 'x')",
        "match it:\n case 'mixture': pass",
    ],
)
def test_a_compared_goal_is_found(code: str):
    assert [*_compared_goals(ast.parse(code))]


def test_goals_differ_in_one_place():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("service/optimist", "clients/python")
        for path in (ROOT / folder).rglob("*.py")
        if not any(place in str(path) for place in OF_GOALS)
        for line in _compared_goals(ast.parse(path.read_text()))
    ]
    assert not found, "ask the goal: experiments/goals/base.py, or DeclaredGoal in optimist_client/goals.py"


OF_ROUTING = ("routing/", "evaluating/", "commands/evaluate.py")
"""Where routing is named: in its own folder, and by the command that says what it would gain."""


def _names(tree: ast.AST) -> set[str]:
    """The identifiers of some code, and the modules that it imports from, but for those of HTTP."""
    fields = ("id", "attr", "arg", "name", "module")
    found = {getattr(node, field, None) for node in ast.walk(tree) for field in fields}
    return {name for name in found if isinstance(name, str)} - {"starlette.routing", "fastapi.routing"}


def test_no_room_names_routing():
    folder = ROOT / "service" / "optimist"
    found = [
        f"{path.relative_to(folder)}: {name}"
        for path in folder.rglob("*.py")
        if not str(path.relative_to(folder)).startswith(OF_ROUTING)
        for name in _names(ast.parse(path.read_text()))
        if re.search("[Rr]out(ed|ing)", name)
    ]
    assert not found, "give the goal a method: experiments/goals/base.py"


def test_an_evaluation_has_the_settings_of_an_experiment():
    """All but those that only a service has, each of which is a field."""
    assert SETTINGS | OF_SERVICES | {"name", "generators", "metric", "watch"} == set(ExperimentConfig.model_fields)


def test_every_room_is_on_the_architecture_page():
    page = (ROOT / "docs" / "architecture.md").read_text()
    folder = ROOT / "service" / "optimist"
    rooms = [path.name for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"]
    rooms = [name for name in rooms if not name.startswith("_")]
    missing = [room for room in rooms if f"{room}/" not in page and room not in page]
    assert not missing


def test_every_file_that_the_architecture_page_names_exists():
    page = (ROOT / "docs" / "architecture.md").read_text()
    files = [path for folder in ("service", "clients", "tests") for path in (ROOT / folder).rglob("*.*")]
    names = {f"/{path.relative_to(ROOT)}" for path in files}
    named = set(re.findall(r"(?<![\w/>])[\w/]+\.(?:py|lua)\b", page))
    missing = [name for name in named if not any(file.endswith(f"/{name}") for file in names)]
    assert not missing


def test_every_program_that_a_document_names_exists():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    program = r"(?<![\w/.-])(?:benchmarks|clients|deploy|docker|examples|service|tests)/[\w/]+\.py\b"
    named = {name for page in pages for name in re.findall(program, page.read_text())}
    assert "benchmarks/rounds.py" in named
    assert not [name for name in named if not (ROOT / name).exists()]
