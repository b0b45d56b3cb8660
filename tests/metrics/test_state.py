"""A state that is declared once is stored, restored and counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist.metrics.spectra.symmetric import SymmetricSum
from optimist.metrics.state import Buffer, LastRows, Stateful


class Inner(Stateful):
    held = ("count", "_tail")

    def __init__(self) -> None:
        self.count = 0
        self._tail = LastRows(torch.zeros(0, 2), 3)


class Outer(Stateful):
    held = ("number", "known", "is_new", "_list", "_pair", "_tensor", "_array", "_rows", "_sums", "inner", "nothing")

    def __init__(self, layout: int = 1) -> None:
        self.layout = (layout,)
        self.number, self.known, self.is_new = 0.0, 0, False
        self._list: list[int] = []
        self._pair = 0.0, 1.0
        self._tensor = torch.zeros(2)
        self._array = np.zeros(3)
        self._rows = Buffer(torch.zeros(0, 2))
        self._sums = {0: SymmetricSum(2), 1: SymmetricSum(2)}
        self.inner = Inner()
        self.nothing = None


def filled() -> Outer:
    found = Outer()
    found.number, found.known, found.is_new, found._list, found._pair = 0.1 + 0.2, 2**62 + 1, True, [3, -1], (0.25, 0.5)
    found._tensor, found._array = torch.tensor([1.5, -0.0]), np.array([1.0, np.nan, 2.0])
    for _ in range(4):
        rows = torch.rand(3, 2, dtype=torch.float64)
        found._rows.append(rows.float())
        found._sums[1].add(rows)
        found.inner._tail.append(rows.float())
    found.inner.count = 7
    return found


def test_a_restored_object_has_the_state_to_the_last_bit():
    one = filled()
    stored = {name: tensor.clone() for name, tensor in one.state().items()}
    other = Outer().restore(stored)
    again = other.state()
    assert again.keys() == stored.keys() >= {"layout", "list", "sums/1", "inner/tail", "inner/count"}
    for name, tensor in stored.items():
        assert tensor.dtype == again[name].dtype, name
        assert tensor.numpy().tobytes() == again[name].numpy().tobytes(), name
    assert (other.number, other.known, other.is_new, other._list) == (one.number, one.known, True, [3, -1])
    assert (other._pair, other.nothing, other.inner.count) == ((0.25, 0.5), None, 7)
    assert one.bytes == other.bytes == sum(tensor.nbytes for tensor in stored.values())
    # Both go on by themselves.
    other._tensor += 1.0
    other._rows.append(torch.ones(1, 2))
    assert stored["tensor"].tolist() == [1.5, 0.0] == one._tensor.tolist()
    assert len(one._rows) == 12


def test_the_states_of_others_are_refused():
    stored = filled().state()
    with pytest.raises(ValueError, match="another layout"):
        Outer(2).restore(stored)
    with pytest.raises(ValueError, match="another kind: it has more"):
        Outer().restore({**stored, "more": torch.zeros(1)})
    with pytest.raises(KeyError, match="count"):
        Outer().restore({name: tensor for name, tensor in stored.items() if name != "tail" and "inner" not in name})
    with pytest.raises(ValueError, match="packed entries"):
        Outer().restore({**stored, "sums/0": torch.zeros(3)})
