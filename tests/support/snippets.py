"""The fenced blocks of the README and the documents, and how they are run.

Python blocks of a page run one after the other in one namespace, on what `preludes.PRELUDES` gives the page; bash
blocks in one folder. A block that cannot run has a comment before it: `<!-- not run: the reason -->`. One whose last
command runs until it is stopped has `<!-- runs until stopped -->`. A block of JSON has the request that it answers,
`<!-- the answer to: GET /v1/… -->`, which is sent in its turn. Blocks of text, YAML and the like are not run.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

NOT_CODE = {"text", "yaml", "json", "dockerfile"}
ANSWER = "the answer to: "
_COMMENT = re.compile(rf"<!-- (not run: .+|runs until stopped|{ANSWER}\w+ /\S+) -->")


@dataclass(frozen=True)
class Snippet:
    """One block: where it is, in which language, and the comment before it."""

    line: int
    language: str
    code: str
    comment: str


def snippets(page: Path) -> list[Snippet]:
    """Every fenced block of a page, in order."""
    found, comment = [], ""
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            found.append(Snippet(line, token.info.strip(), token.content, comment))
        if token.type == "html_block" or not token.hidden:
            match = _COMMENT.fullmatch(token.content.strip())
            comment = match[1] if match else ""
    return found


def run_python(snippet: Snippet, page: Path, code: str, namespace: dict[str, Any]) -> None:
    """Run a block, which may await; what is wrong names the page and the line."""
    lines = "\n" * snippet.line + code
    compiled = compile(lines, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if compiled.co_flags & inspect.CO_COROUTINE:
        # With names of its own: what follows on the page goes on with the blocking client.
        asyncio.run(eval(compiled, dict(namespace)))
    else:
        exec(compiled, namespace)
