"""How large the project is: files, code lines without blanks, docstrings, comments and imports, and words of documents.

    make size

Prints also what `budgets.toml` limits: code lines of each room, Lua, numeric constants, settings, words of documents.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
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
PACKAGES = {"service": "service/optimist", "sdk": "clients/python/optimist_client"}
SETTINGS = {
    "experiment": ("clients/python/optimist_client/config.py", "ExperimentConfig"),
    "service": ("service/optimist/settings.py", "Settings"),
}
"""The file and the class whose fields are the settings of each."""
BUDGETS = Path(__file__).with_name("budgets.toml")


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


def constants(path: Path) -> list[tuple[str, str, str]]:
    """Name, value and docstring of what one module calls a number, or a tuple of numbers, at its top level.

    Constants that follow each other directly share the docstring below them.
    """
    body, listed = ast.parse(path.read_text()).body, list[tuple[str, str, str]]()
    note = ""
    for node, after in zip(reversed(body), [None, *reversed(body)], strict=False):
        match after:
            case ast.Expr(ast.Constant(str(text))):
                note = " ".join(text.split())
            case ast.Assign() | ast.AnnAssign():
                pass
            case _:
                note = ""
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=ast.expr() as value):
                if _is_numeric(value):
                    listed.append((name, ast.unparse(value), note))
            case _:
                pass
    return listed[::-1]


def _is_numeric(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value):
            return type(value) in (int, float)
        case ast.UnaryOp(operand=operand):
            return _is_numeric(operand)
        case ast.BinOp(left, right=right):
            return _is_numeric(left) and _is_numeric(right)
        case ast.Tuple(elements):
            return bool(elements) and all(map(_is_numeric, elements))
        case _:
            return False


def fields(path: Path, name: str) -> int:
    """The number of fields that one class of a module declares."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    (declared,) = (node.body for node in classes if node.name == name)
    return sum(isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation) for node in declared)


def measured() -> dict[str, dict[str, int]]:
    """What each budget limits as it stands, by the sections and names of `budgets.toml`."""
    code, numbers = Counter[str](), Counter[str]()
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder).parts
            room = f"{package}/{inside[0]}" if len(inside) > 1 else package
            code[room] += size_of(path).code
            numbers[package] += len(constants(path))
    code["lua"] = sum(size_of(path).code for path in ROOT.glob(PARTS["Lua"]))
    return {
        "code": dict(code),
        "constants": dict(numbers),
        "settings": {of: fields(ROOT / path, name) for of, (path, name) in SETTINGS.items()},
        "words": {"documents": words(pages()), "README": words([ROOT / "README.md"])},
    }


def budgets() -> dict[str, dict[str, int]]:
    """The largest that each may be, by section and name."""
    return tomllib.loads(BUDGETS.read_text())


def pages() -> list[Path]:
    """Every page of documents."""
    return [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]


def main() -> None:
    """Print the tables."""
    table = Table("", "files", "code", "docstrings", "comments", "imports", "comments / code", box=box.MARKDOWN)
    for name, pattern in PARTS.items():
        table.add_row(name, *sum((size_of(path) for path in sorted(ROOT.glob(pattern))), Size()).row)
    limits = budgets()
    held = Table("", "measured", "budget", box=box.MARKDOWN)
    for section, sizes in measured().items():
        for name, size in sorted(sizes.items()):
            held.add_row(f"{section} {name}", f"{size:,}", f"{limits[section][name]:,}")
    console = Console()
    console.print(table)
    console.print(held)
    console.print(f"{len(pages())} pages of documents, {words(pages()):,} words without code")


if __name__ == "__main__":
    main()
