"""llms.txt: every page of the site with its first sentence, for programs that read (https://llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

CONFIG = Path(__file__).parents[2] / "mkdocs.yml"


def text(pages: Path) -> str:
    """The pages in the order of the menu, by section."""
    config = yaml.safe_load(CONFIG.read_text())
    lines = [f"# {config['site_name']}\n", f"> {config['site_description']}\n"]
    for entry in config["nav"]:
        ((title, below),) = entry.items()
        lines.append(f"## {title}\n")
        for one in below if isinstance(below, list) else [entry]:
            ((name, page),) = one.items()
            lines.append(f"- [{name}]({page}): {_first_sentence((pages / page).read_text())}")
        lines.append("")
    return "\n".join(lines)


def _first_sentence(page: str) -> str:
    """The first sentence of the first paragraph, as plain text."""
    paragraphs = (part for part in page.split("\n\n") if not re.match(r"\s*(#|<!--|```|\||!\[|$)", part))
    first = " ".join(next(paragraphs, "").split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("**", "")
    return re.split(r"(?<=[.:?]) (?=[A-Z])", plain)[0]
