"""The project holds the sizes that it set itself."""

from __future__ import annotations

from benchmarks.size import BUDGETS, PACKAGES, ROOT, budgets, constants, measured


def test_every_part_is_within_its_budget():
    limits = budgets()
    sizes = measured()
    assert {section: set(names) for section, names in limits.items()} == {
        section: set(names) for section, names in sizes.items()
    }, f"{BUDGETS.name} names other parts than the project has"
    over = [
        f"{section} {name}: {size:,} of {limits[section][name]:,}"
        for section, names in sizes.items()
        for name, size in names.items()
        if size > limits[section][name]
    ]
    assert not over, f"over budget (take away as much, or raise it in {BUDGETS} and say why there): {over}"


def test_every_number_says_what_it_is():
    """The page of the numbers in the code is made of these docstrings."""
    paths = [path for folder in PACKAGES.values() for path in (ROOT / folder).rglob("*.py")]
    without = [f"{path}: {name}" for path in paths for name, _, note in constants(path) if not note]
    assert not without, without
