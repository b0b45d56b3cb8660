"""What a release needs: one version, types for users, workflows that run the README's commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import optimist
from tests.support.places import ROOT


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def commands(workflow: Any) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "service/optimist/__init__.py"
    written = [
        path
        for folder in ("service", "clients/python")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{optimist.__version__}"' in path.read_text()
    ]
    assert written == [ROOT / "service" / "optimist" / "__init__.py"]


@pytest.mark.parametrize("package", ["service/optimist", "clients/python/optimist_client"])
def test_type_checkers_use_the_types(package: str):
    assert (ROOT / package / "py.typed").is_file()


def test_the_public_workflow_runs_the_commands_of_the_readme():
    run = commands(read(".github/workflows/ci.yml"))
    assert ".ci/run" in run
    assert any(command.startswith("make test") for command in run)
    assert "make test " in (ROOT / "README.md").read_text()
    versions = read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]


def test_a_release_is_built_checked_and_signed_before_it_is_published():
    workflow = read(".github/workflows/release.yml")
    text = "\n".join(commands(workflow))
    for command in ("python -m build", "twine check", "optimist --version", "cyclonedx"):
        assert command in text
    assert workflow["jobs"]["publish"]["needs"] == ["build", "images"]
    assert workflow["jobs"]["publish"]["permissions"]["id-token"] == "write"
    assert "write" not in workflow["permissions"].values()


def test_a_release_pins_the_images_that_the_deployments_use():
    (command,) = [one for one in commands(read(".github/workflows/release.yml")) if "deploy/pin.py" in one]
    files = [ROOT / "docker" / "compose.yaml", *(ROOT / "deploy" / "kubernetes").rglob("*.yaml")]
    used = {name for file in files for name in re.findall(r"image: (\S+:\S+)", file.read_text())}
    used.remove("my-models:dev")  # of workers with models, which are the user's own
    others = {name for name in used if not name.startswith("optimist-")}
    (pinned,) = re.findall(r"for used in (.+); do", command)
    assert set(pinned.split()) == others
    (targets,) = re.findall(r"for target in (.+); do", command)
    assert {f"optimist-{target}:dev" for target in targets.split()} == used - others


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")), ids=lambda path: path.name)
def test_forms_of_issues_ask_for_something(path: Path):
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert {"name", "description", "body"} <= form.keys()
        assert any(one.get("validations", {}).get("required") for one in form["body"])


def test_the_citation_names_the_licence():
    citation = read("CITATION.cff")
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
