"""Texts for the generated pages."""

from __future__ import annotations


def cell(text: str) -> str:
    """The text, escaped for a cell of a Markdown table."""
    return text.replace("|", "\\|")
