"""The page's modules as one script: what they import is there before them, and nothing else may stand in them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from optimist.api.bundle import bundled
from optimist_client.errors import FixError

MODULES = {
    "a.js": 'import { two as other, Three } from "./b-c.js";\nimport { zero } from "./zero.js";\nconst one = 1;\n'
    "console.log(one, other(), new Three().three, zero);\n",
    "b-c.js": 'import { zero } from "./zero.js";\nconst one = 2;\nexport function two() {\n  return one + zero;\n}\n'
    "export class Three {\n  three = 3;\n}\n",
    "zero.js": "export const zero = 0;\n",
    "unused.js": "throw 1;\n",
}


def written(folder: Path, **changed: str) -> Path:
    for name, text in (MODULES | {f"{name}.js": text for name, text in changed.items()}).items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_names_of_modules_stay_apart(tmp_path: Path):
    script = bundled(written(tmp_path), "a")
    assert script.count("const zero = 0") == 1
    assert "throw" not in script
    ran = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    assert ran.stdout == "1 2 3 0\n"


@pytest.mark.parametrize(
    "line", ['import "./b.js";', "export default 1;", "export { one };", 'import * as b from "./b-c.js";']
)
def test_what_it_does_not_know_is_refused(tmp_path: Path, line: str):
    with pytest.raises(FixError, match=r"zero\.js: expected names from a module"):
        bundled(written(tmp_path, zero=f"{line}\nexport const zero = 0;\n"), "a")
