"""The command that adds an extra to an install, for every way in which it can have been installed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.places import ROOT

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "local_service.py")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
SOURCES = [*(ROOT / "service").rglob("*.py"), *(ROOT / "clients").rglob("*.py"), *(ROOT / "clients").rglob("*.js")]
HINT = "from optimist_client.installed import install_hint; print(install_hint('demo'))"


def installed(folder: Path, origin: dict[str, object] | None) -> Path:
    """The SDK's modules in a folder like site-packages, with what pip writes of where they came from."""
    packages = folder / "site-packages"
    made = packages / "optimist-0.1.0.dist-info"
    made.mkdir(parents=True)
    (packages / "optimist_client").symlink_to(ROOT / "clients" / "python" / "optimist_client")
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: optimist\nVersion: 0.1.0\n")
    if origin is not None:
        (made / "direct_url.json").write_text(json.dumps(origin))
    return packages


def hint(packages: Path, within: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(packages)!r}); {HINT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=within, check=True)
    return done.stdout.strip()


def test_a_copy_of_a_checkout_is_extended_from_the_checkout(tmp_path: Path):
    packages = installed(tmp_path, {"url": ROOT.as_uri(), "dir_info": {}})
    assert hint(packages, ROOT) == "pip install -c constraints.txt '.[demo]'"
    assert hint(packages, tmp_path) == f"pip install -c {ROOT}/constraints.txt '{ROOT}[demo]'"


def test_a_checkout_in_use_stays_in_use():
    assert hint(ROOT / "clients" / "python", ROOT) == "pip install -c constraints.txt -e '.[demo]'"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'optimist[demo]'"),
        ({"url": "file:///gone/optimist.whl", "archive_info": {}}, "pip install '.[demo]' in a checkout"),
        (
            {"url": "https://host/optimist", "vcs_info": {"vcs": "git", "commit_id": "1" * 40}},
            "pip install 'optimist[demo] @ git+https://host/optimist'",
        ),
    ],
    ids=["index", "a checkout that is gone", "version control"],
)
def test_other_installs_are_extended_from_where_they_came_from(
    tmp_path: Path, origin: dict[str, object] | None, command: str
):
    assert hint(installed(tmp_path, origin), tmp_path) == command


def test_no_text_of_the_product_names_an_install_by_itself():
    """`install_hint` knows how; a package of this name in an index may be somebody else's."""
    texts = {path: path.read_text() for path in SOURCES if path.name != "installed.py"}
    assert not [path for path, text in texts.items() if "'optimist[" in text or r"'optimist\[" in text]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_header_of_an_example_is_enough_to_run_it(example: Path):
    header = ast.get_docstring(ast.parse(example.read_text())) or ""
    found = re.search(r"^    pip install -c constraints.txt '\.\[([\w,-]+)\]'$", header, re.M)
    assert found is not None
    assert set(found[1].split(",")) <= EXTRAS
    assert f"\n    python examples/{example.name}" in header
