"""Texts for the generated pages."""

from __future__ import annotations

import re

_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.M | re.S)


def cell(text: str) -> str:
    """The text, escaped for a cell of a Markdown table."""
    return text.replace("|", "\\|")


def without_tags(page: str) -> str:
    """The page with what would be read as a tag of HTML, such as <name>, shown as it is; code stays."""
    parts = _CODE.split(page)
    parts[::2] = (re.sub(r"<(?=[A-Za-z/])", "&lt;", part) for part in parts[::2])
    return "".join(parts)
