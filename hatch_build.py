"""Puts the site of the documents into the wheel, where `make site` has built it. An install works without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Documents(BuildHookInterface):
    """`optimist docs` shows what this puts beside the code."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add site/ as optimist/site/, except to an editable install, which finds it in the checkout."""
        site = Path(self.root) / "site"
        if version == "standard" and (site / "index.html").is_file():
            build_data["force_include"][str(site)] = "optimist/site"
