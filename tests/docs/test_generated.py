"""Everything a user can set, call or ask for is on a page, and the pages that are made from the code are as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
import yaml

from optimist.api.app import create_app
from optimist.commands import app as commands
from optimist.settings import Settings
from optimist_client import metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {page.name: page.read_text() for page in DOCS.glob("*.md")}


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which knows no metrics of other tests."""
    command = [sys.executable, str(root / "docs" / "generate"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_pages_made_from_the_code_are_as_it_is():
    checked = check(ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.long
def test_a_page_and_a_generated_part_of_one_that_are_stale_are_named(tmp_path: Path):
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "docs" / "http.md").open("a") as page:
        page.write("\n### GET /v1/nothing\n")
    part = tmp_path / "docs" / "metrics.md"
    part.write_text(part.read_text().replace("| lower | linear |", "| higher | linear |", 1))
    checked = check(tmp_path)
    assert checked.returncode == 1
    said = checked.stdout.removeprefix("stale, run `make docs`: ").strip()
    assert set(said.split(", ")) == {"http.md", "metrics.md"}


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_export_of_the_metrics_is_in_the_reference_with_its_settings(name: str):
    _, found, after = PAGES["sdk-reference.md"].partition("\n## optimist_client.metrics\n")
    _, heading, section = after.partition(f"\n### {name}\n")
    assert found
    assert heading
    settings = getattr(getattr(metrics, name), "model_fields", {})
    assert all(f"| `{setting}` |" in section.partition("\n### ")[0] for setting in settings)


def test_every_route_says_what_it_does():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = create_app(Settings(), "redis://nowhere").openapi()
    undescribed = [
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not operation.get("description")
    ]
    assert document["paths"]
    assert not undescribed


def test_every_option_of_every_command_says_what_it_does():
    def commands_of(command: typer.core.TyperCommand, name: str):
        yield name, command
        for child, below in getattr(command, "commands", {}).items():
            yield from commands_of(below, f"{name} {child}")

    found = list(commands_of(typer.main.get_command(commands), "optimist"))
    silent = [(name, option.name) for name, one in found for option in one.params if not getattr(option, "help", None)]
    assert len(found) > 8
    assert not silent


def test_every_variable_that_is_read_is_on_the_settings_page():
    sources = [*(ROOT / "service").rglob("*.py"), *(ROOT / "clients").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = {name for file in sources for name in re.findall(r"OPTIMIST_[A-Z_]*[A-Z]", file.read_text())}
    named |= {f"OPTIMIST_{field.upper()}" for field in Settings.model_fields}
    assert not {name for name in named if f"`{name}`" not in PAGES["settings.md"]}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_page_is_linked_to(name: str):
    others = [text for page, text in PAGES.items() if page != name] + [(ROOT / "README.md").read_text()]
    assert any(f"({name}" in text or f"(docs/{name}" in text for text in others)


@pytest.mark.parametrize(
    "page", ["README.md", "SECURITY.md", "CHANGELOG.md", *(f"docs/{name}" for name in sorted(PAGES))]
)
def test_links_lead_somewhere(page: str):
    file = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = file if not path else file.parent / path
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}, (
                target
            )


def test_the_runbook_knows_every_alert():
    rules = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert alerts
    assert not [name for name in alerts if f"| {name} |" not in PAGES["operations.md"]]


def test_every_metric_is_on_its_page():
    made = (ROOT / "service" / "optimist" / "insight" / "metrics.py").read_text()
    names = set(re.findall(r'"(optimist_[a-z_]+)"', made))
    assert names
    page = PAGES["metrics-prometheus.md"]
    assert not {name for name in names if f"`{name}`" not in page and f"`{name}_total`" not in page}
