"""The names that errors had in version 0.1 go on for one version."""

from __future__ import annotations

import pytest

import optimist_client
from optimist_client import errors


@pytest.mark.parametrize("module", [optimist_client, errors])
@pytest.mark.parametrize("name", errors.OLD_NAMES)
def test_an_old_name_is_the_new_class_with_a_warning(module: object, name: str):
    with pytest.warns(DeprecationWarning, match=f"{name} is called {name}Error"):
        assert getattr(module, name) is getattr(optimist_client, f"{name}Error")


def test_all_errors_end_in_error():
    assert all(name.endswith("Error") for name in errors.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = optimist_client.Nothing
