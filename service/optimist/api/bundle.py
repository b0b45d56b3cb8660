"""The modules of the page as one script: a browser takes milliseconds for each of fifty files, from its cache, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from optimist_client.errors import FixError

_IMPORT = re.compile(r'^import \{ (.*) \} from "\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|function|class|async function) (\w+))", re.MULTILINE)


def bundled(folder: Path, first: str) -> str:
    """The module called `first` after all that it imports, each as a function that returns what it exports.

    They import each other by names, in a line each and in no circle, and export `const`, `function` and `class`. Raises
    FixError for another `import` or `export`.
    """
    return "\n".join(_module(name, text) for name, text in _in_order(folder, first, {}))


def _in_order(folder: Path, name: str, seen: dict[str, None]) -> Iterator[tuple[str, str]]:
    seen[name] = None
    text = (folder / f"{name}.js").read_text()
    for _, other in _IMPORT.findall(text):
        if other not in seen:
            yield from _in_order(folder, other, seen)
    yield name, text


def _module(name: str, text: str) -> str:
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda line: _taken(*line.groups()), text))
    if other := re.search(r"^(import|export)\b.*", body, re.MULTILINE):
        raise FixError(f"{name}.js: expected names from a module, in one line, or something named: {other[0]}")
    return f"const {_variable(name)} = (() => {{\n{body}return {{ {exported} }};\n}})();"


def _taken(names: str, module: str) -> str:
    return f"const {{ {names.replace(' as ', ': ')} }} = {_variable(module)};"


def _variable(module: str) -> str:
    return f"${module.replace('-', '_')}"
