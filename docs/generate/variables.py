"""reference/settings.md from the fields of the settings."""

from __future__ import annotations

from typing import Any

from notes import cell

from optimist.commands.options import field_notes
from optimist.settings import Settings

INTRODUCTION = """# Settings

These are the environment variables of the service. An option of the [command line](cli.md) overrides its variable.
Sizes are in bytes, times in seconds.

| variable | default | meaning |
| --- | --- | --- |
"""
OF_CLIENTS = {
    "OPTIMIST_URL": "The service that the SDK and the commands talk to; by default `http://127.0.0.1:8000`.",
    "OPTIMIST_API_KEY": "The access key that the SDK, and the commands that talk to a service, send.",
}
OF_DEMO = {
    "OPTIMIST_CACHE": "The directory for the generators that `optimist demo` and `simulate --generators` fit.",
}
OF_TESTS = {
    "OPTIMIST_FUZZ_CASES": "How many cases the fuzzers run.",
    "OPTIMIST_FUZZ_SECONDS": "For how many seconds at most the fuzzers run each operation of the API.",
    "OPTIMIST_TEST_REDIS": "Another redis-server for the store's tests, in addition to the one that is found.",
    "OPTIMIST_TEST_SERVERS": "Which servers the store's tests run on: `6.2`, `7.0`, `cluster`, `7.0-cluster`.",
}


def page() -> str:
    """The whole page. Raises KeyError for a field without a note."""
    notes = field_notes(Settings)
    rows = [
        f"| `OPTIMIST_{name.upper()}` | {cell(_default(field))} | {cell(notes[name])} |"
        for name, field in Settings.model_fields.items()
    ]
    others = _others("Clients", OF_CLIENTS) + _others("Demo", OF_DEMO) + _others("Tests", OF_TESTS)
    return INTRODUCTION + "\n".join(rows) + others


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return field.default_factory.__doc__.strip().rstrip(".")
    if field.default in (None, ()):
        return "none"
    return f"`{field.default:_}`" if type(field.default) is int and field.default > 9999 else f"`{field.default}`"


def _others(title: str, variables: dict[str, str]) -> str:
    rows = "\n".join(f"| `{name}` | {cell(note)} |" for name, note in variables.items())
    return f"\n\n## {title}\n\n| variable | meaning |\n| --- | --- |\n{rows}"
