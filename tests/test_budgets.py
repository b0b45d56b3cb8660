"""The project holds the sizes that it set itself."""

from __future__ import annotations

from benchmarks.size import BUDGETS, budgets, measured


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
