"""How large the project is: files, code lines without blanks, docstrings, comments and imports, and words of documents.

make size
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PARTS = {
    "service": "service/**/*.py",
    "clients": "clients/**/*.py",
    "tests": "tests/**/*.py",
    "benchmarks": "benchmarks/**/*.py",
    "examples": "examples/**/*.py",
    "Lua": "service/**/*.lua",
}


@dataclass(frozen=True)
class Size:
    """Lines of some files."""

    files: int = 0
    code: int = 0
    """Lines with code, without those of docstrings, comments and imports."""
    docstrings: int = 0
    comments: int = 0
    """Lines with a comment, also behind code."""
    imports: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(mine + theirs for mine, theirs in zip(self._numbers, other._numbers, strict=True)))

    @property
    def _numbers(self) -> tuple[int, ...]:
        return self.files, self.code, self.docstrings, self.comments, self.imports

    @property
    def row(self) -> list[str]:
        """The numbers, and comments as a share of the lines of code."""
        share = self.comments / self.code if self.code else 0.0
        return [*(f"{number:,}" for number in self._numbers), f"{share:.1%}"]


def size_of(path: Path) -> Size:
    """The size of one file of Python or Lua."""
    text = path.read_text()
    if path.suffix == ".lua":
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        comments = sum(line.startswith("--") for line in lines)
        return Size(1, len(lines) - comments, 0, comments, 0)
    tree = ast.parse(text)
    docstrings, imports = set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _lines(node)
        for inner in ast.iter_child_nodes(node):
            # A text by itself is a docstring, of a field, too.
            if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant) and type(inner.value.value) is str:
                docstrings |= _lines(inner)
    comments, code = set[int](), set[int]()
    blank = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in blank:
            code |= set(range(token.start[0], token.end[0] + 1))
    return Size(1, len(code - docstrings - imports), len(docstrings), len(comments), len(imports))


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def words(pages: Iterable[Path]) -> int:
    """Words of pages, without their code blocks."""
    return sum(len(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S).split()) for page in pages)


def main() -> None:
    """Print the table."""
    table = Table("", "files", "code", "docstrings", "comments", "imports", "comments / code", box=box.MARKDOWN)
    for name, pattern in PARTS.items():
        table.add_row(name, *sum((size_of(path) for path in sorted(ROOT.glob(pattern))), Size()).row)
    console = Console()
    console.print(table)
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    console.print(f"{len(pages)} pages of documents, {words(pages):,} words without code")


if __name__ == "__main__":
    main()
