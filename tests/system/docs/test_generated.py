"""Everything a user can set, call or ask for is on a page, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from optimist.api.app import create_app
from optimist.commands.app import app as commands
from optimist.settings import Settings
from optimist.store.keys import EXPERIMENT_PARTS
from optimist_client import metrics
from tests.support.once import made_once, place_of_all_workers
from tests.support.places import ROOT

DOCS = ROOT / "docs"
BY_HAND = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
LINKING = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
RESULTS = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "benchmarks" / "results").rglob("*.md"))


def write_pages(folder: Path) -> None:
    command = [sys.executable, str(DOCS / "generate"), "--pages", str(folder)]
    written = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert written.returncode == 0, written.stdout + written.stderr


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages as the site has them, written by a process of its own, which knows no metrics of other tests."""
    return made_once(place_of_all_workers(tmp_path_factory) / "pages", write_pages)


@pytest.mark.long
def test_every_export_of_the_metrics_is_in_the_reference_with_its_settings(pages: Path):
    _, found, after = (pages / "reference" / "sdk.md").read_text().partition("\n## optimist_client.metrics\n")
    sections = {name: after.partition(f"\n### {name}\n")[2].partition("\n### ")[0] for name in metrics.__all__}
    settings = {name: getattr(getattr(metrics, name), "model_fields", {}) for name in metrics.__all__}
    assert found
    assert not [name for name, section in sections.items() if not section]
    assert not [
        (name, setting) for name in settings for setting in settings[name] if f"| `{setting}` |" not in sections[name]
    ]


@pytest.mark.long
def test_the_tables_of_metrics_are_on_their_page(pages: Path):
    page = (pages / "metrics.md").read_text()
    # Other tests declare metrics of their own.
    own = [name for name, kind in metrics.declared().items() if kind.__module__.startswith("optimist_client.")]
    assert own
    assert all(f"| `{name}`" in page for name in own)


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
    def commands_of(command: Any, name: str):
        yield name, command
        for child in getattr(command, "commands", {}):
            yield from commands_of(command.get_command(None, child), f"{name} {child}")

    found = list(commands_of(typer.main.get_command(commands), "optimist"))
    silent = [(name, option.name) for name, one in found for option in one.params if not getattr(option, "help", None)]
    assert len(found) > 8
    assert not silent


@pytest.mark.long
def test_every_variable_that_is_read_is_on_the_settings_page(pages: Path):
    sources = [*(ROOT / "service").rglob("*.py"), *(ROOT / "clients").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = {name for file in sources for name in re.findall(r"OPTIMIST_[A-Z_]*[A-Z]", file.read_text())}
    named |= {f"OPTIMIST_{field.upper()}" for field in Settings.model_fields}
    page = (pages / "reference" / "settings.md").read_text()
    assert not {name for name in named if f"`{name}`" not in page}


@pytest.mark.parametrize("name", BY_HAND)
def test_every_page_is_linked_to_and_in_the_menu(name: str):
    menu = (ROOT / "mkdocs.yml").read_text()
    assert f": {name}\n" in menu
    others = [(DOCS / page).read_text() for page in BY_HAND if page != name]
    others += [(ROOT / page).read_text() for page in LINKING]
    assert any(f"({name}" in text or f"(docs/{name}" in text for text in others)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.long
def test_links_lead_somewhere(pages: Path):
    lost: list[tuple[str, str]] = []
    for page in (*LINKING, *(f"docs/{name}" for name in BY_HAND), *RESULTS):
        file = ROOT / page
        for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            found = file if not path else file.parent / path
            if "reference" in Path(path).parts:
                found = pages / "reference" / Path(path).name
            if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
                lost.append((page, target))
    assert not lost


@pytest.mark.long
def test_placeholders_in_the_reference_are_shown_and_no_tags(pages: Path):
    page = (pages / "reference" / "redis.md").read_text()
    assert '"&lt;nonce> &lt;least rows> ' in page
    assert "| `optimist:reference:<name>` |" in page


def test_the_runbook_knows_every_alert():
    rules = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    page = (DOCS / "deploy.md").read_text()
    assert alerts
    assert not [name for name in alerts if f"| {name} |" not in page]


@pytest.mark.long
def test_every_metric_of_prometheus_is_in_the_reference(pages: Path):
    made = (ROOT / "service" / "optimist" / "insight" / "metrics.py").read_text()
    names = set(re.findall(r'"(optimist_[a-z_]+)"', made))
    assert names
    page = (pages / "reference" / "prometheus.md").read_text()
    assert not {name for name in names if f"`{name}`" not in page and f"`{name}_total`" not in page}


@pytest.mark.long
def test_every_key_in_redis_is_in_the_reference(pages: Path):
    page = (pages / "reference" / "redis.md").read_text()
    assert all(f"| `…:{part}` |" in page for part in EXPERIMENT_PARTS)
    assert "| `optimist:format` |" in page
