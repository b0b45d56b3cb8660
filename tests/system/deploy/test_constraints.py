"""constraints.txt can be used with any index of packages."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.places import ROOT

CONSTRAINTS = ROOT / "constraints.txt"


def test_every_pin_is_one_version_that_any_index_can_have():
    """A local version (2.13.0+cpu) is in no public index, and no other build of 2.13.0 satisfies a pin of it."""
    pins = [Requirement(line) for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    assert "torch" in {pin.name for pin in pins}
    for pin in pins:
        (only,) = pin.specifier
        assert only.operator == "==", pin
        assert Version(only.version).local is None, pin
