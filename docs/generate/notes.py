"""Docstrings of class fields, which Python does not store: the string below each field."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def field_notes(cls: type) -> dict[str, str]:
    """For each field of `cls` and of its base classes, the string below it, on one line."""
    notes: dict[str, str] = {}
    for home in reversed([one for one in cls.__mro__ if one.__module__.startswith("optimist")]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(home)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, following in pairwise(body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    notes[field.target.id] = " ".join(text.split())
    return notes


def cell(text: str) -> str:
    """The text, escaped for a cell of a Markdown table."""
    return text.replace("|", "\\|")
