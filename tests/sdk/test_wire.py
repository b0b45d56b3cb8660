"""The models of HTTP are built when a process starts, not in its first requests."""

from __future__ import annotations

from optimist_client.wire import Answer, build_models


def test_models_of_models_are_built_too():
    class Outer(Answer):
        outer: int

    class Inner(Outer):
        inner: int

    assert not Outer.__pydantic_complete__
    assert not Inner.__pydantic_complete__
    build_models()
    assert Outer.__pydantic_complete__
    assert Inner.__pydantic_complete__
