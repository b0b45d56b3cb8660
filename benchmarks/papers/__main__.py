"""The papers' experiments on the digits.

    python benchmarks/papers [names] [--quick] [--trials 20] [--out papers] [--data DIR] [--jobs 1]

Each named experiment runs with the papers' batches and rounds and is written to the folder as PNG, SVG and JSON;
without names, all run. `table` makes the table of benchmarks/results from the comparisons in the folder. `--data` is a
folder of feature files (recorded.py); without it, their experiments are skipped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import diversity
import online
import table
from convergence import convergence
from figures import save
from problems import COMPARISONS
from recorded import comparisons
from rich.console import Console
from settings import Settings, Study

STUDIES: dict[str, Callable[[Settings], Study]] = {
    "diversity-classes": diversity.classes,
    "diversity-truncation": diversity.truncations,
    "conditional": diversity.conditional,
    "convergence": convergence,
}
"""Experiments without policies, by name."""


def main() -> None:
    """Run the selected experiments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*COMPARISONS, *STUDIES])}, those of --data, or table")
    parser.add_argument(
        "--quick", action="store_true", help="small samples and few rounds, to check that everything runs"
    )
    parser.add_argument("--trials", type=int, default=20, help="number of trials of every policy")
    parser.add_argument("--out", type=Path, default=Path("papers"), help="the folder to write to")
    parser.add_argument("--data", type=Path, help="a folder of feature files")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    settings = Settings(asked.quick, asked.trials, asked.jobs)
    known = COMPARISONS | (comparisons(asked.data) if asked.data else {})
    names = asked.names or [*known, *STUDIES, "table"]
    unknown = [name for name in names if name not in {*known, *STUDIES, "table"}]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join([*known, *STUDIES, 'table'])}")
    asked.out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    for name in names:
        if name == "table":
            print(table.markdown(online.read(asked.out)))
            continue
        console.rule(name)
        if name in known:
            result = online.play(known[name], settings)
            found, figure = online.document(known[name], result), online.figure(known[name], result)
        else:
            study = STUDIES[name](settings)
            found, figure = study.numbers, study.figure
        (asked.out / f"{name}.json").write_text(f"{json.dumps(found, indent=1)}\n")
        save(figure, asked.out / name)


if __name__ == "__main__":
    main()
