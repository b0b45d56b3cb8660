"""The best weights over the simplex: stored answers, a grid, vertices, orders of generators, and convex losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optimist.estimates import programme
from optimist.estimates.programme import Floats, Quadratic, best_weights, minimise, on_simplex


def quadratic_of(seed: int, count: int, rank: int, shift: float = 0.0, slope: float = 0.1) -> Quadratic:
    """A loss with a matrix of this rank, all of whose entries are moved by `shift`."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((rank, count))
    return Quadratic(rows.T @ rows / rank + shift, slope * rng.standard_normal(count))


def gap(quadratic: Quadratic, weights: Floats) -> float:
    """The duality gap, relative to the size of the loss's numbers: 0 at the best weights and nowhere else."""
    gradient = quadratic.gradient(weights)
    size = np.abs(quadratic.matrix).max() + np.abs(quadratic.linear).max()
    return float(weights @ gradient - gradient.min()) / size


def assert_feasible(weights: Floats) -> None:
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "matrix", "linear"),
    [
        ("rke_greedy", "rke_V", ()),
        ("rke_cab_paper", "rke_V", ("-epsilon_rke",)),
        ("rke_cab_code", "rke_code", ("-epsilon_rke_code",)),
        ("kid_greedy", "kid_V", ("kid_f",)),
        ("kid_cab_paper", "kid_V", ("kid_f", "-epsilon_kid")),
    ],
)
def test_programmes_are_the_stored_ones(answer, matrix, linear, stored):
    file = stored("mixture_quadratic")
    terms = [-file[name[1:]] if name.startswith("-") else file[name] for name in linear]
    ridge = 1e-8 if answer == "rke_cab_code" else 0.0
    quadratic = Quadratic(file[matrix] + ridge * np.eye(3), np.sum([np.zeros(3), *terms], axis=0))
    weights = best_weights(quadratic)
    np.testing.assert_allclose(weights, file[f"{answer}_alpha"], atol=1e-6)
    assert quadratic.value(weights) == pytest.approx(float(file[f"{answer}_value"]), abs=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 4), st.sampled_from([0.0, 1.0, 1e4]))
def test_no_point_of_a_grid_is_better(seed: int, count: int, rank: int, shift: float):
    quadratic = quadratic_of(seed, count, rank, shift)
    weights = best_weights(quadratic)
    assert_feasible(weights)
    steps = 40
    grid = [np.array(point) / steps for point in product(range(steps + 1), repeat=count) if sum(point) == steps]
    lowest = min(quadratic.value(point) for point in grid)
    assert quadratic.value(weights) <= lowest + 1e-12 * (1.0 + shift)


@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 16), st.sampled_from([0.0, 0.01, 10.0]))
def test_weights_are_optimal_and_no_worse_than_any_vertex(seed: int, count: int, rank: int, slope: float):
    quadratic = quadratic_of(seed, count, rank, slope=slope)
    weights = best_weights(quadratic)
    assert_feasible(weights)
    assert gap(quadratic, weights) < 1e-8
    value = quadratic.value(weights)
    for other in (*np.eye(count), np.full(count, 1.0 / count)):
        assert value <= quadratic.value(other) + 1e-12 * (1.0 + abs(value))


@example(seed=2816, count=3, rank=3, slope=0.0)  # momentum carries it into a corner
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 12), st.sampled_from([0.0, 1.0, 100.0]))
def test_both_ways_of_solving_agree(seed: int, count: int, rank: int, slope: float):
    quadratic = quadratic_of(seed, count, rank, slope=slope)
    exact = best_weights(quadratic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programme, "EXACT", 1)
        descended = best_weights(quadratic)
    assert_feasible(descended)
    assert quadratic.value(descended) == pytest.approx(quadratic.value(exact), abs=1e-8 * (1.0 + slope))
    if rank >= count:
        # Where the matrix is regular there is one best blend.
        smallest = np.linalg.eigvalsh(quadratic.matrix)[0]
        np.testing.assert_allclose(descended, exact, atol=1e-8 * max(1.0, 1.0 / smallest))


def test_the_gradient_alone_finds_the_exact_weights_to_1e_8():
    for seed in range(20):
        centred = programme._centred(quadratic_of(seed, 8, 40))
        np.testing.assert_allclose(programme._descended(centred), best_weights(centred), atol=1e-8)


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 14))
def test_the_order_of_generators_does_not_matter(seed: int, count: int, rank: int):
    quadratic = quadratic_of(seed, count, rank)
    order = np.random.default_rng(seed).permutation(count)
    turned = quadratic.restricted_to(order.tolist())
    weights, of_turned = best_weights(quadratic), best_weights(turned)
    assert turned.value(of_turned) == pytest.approx(quadratic.value(weights), abs=1e-10)
    if rank >= count:
        smallest = np.linalg.eigvalsh(quadratic.matrix)[0]
        np.testing.assert_allclose(of_turned, weights[order], atol=1e-8 * max(1.0, 1.0 / smallest))


@pytest.mark.parametrize("way", ["exact", "descent"])
@pytest.mark.parametrize("seed", range(5))
def test_a_generator_twice_changes_nothing(seed: int, way: str, monkeypatch: pytest.MonkeyPatch):
    if way == "descent":
        monkeypatch.setattr(programme, "EXACT", 1)
    quadratic = quadratic_of(seed, 4, 6)
    twice = quadratic.restricted_to([0, 1, 2, 3, 1, 1])
    weights, of_twice = best_weights(quadratic), best_weights(twice)
    assert_feasible(of_twice)
    assert twice.value(of_twice) == pytest.approx(quadratic.value(weights), abs=1e-10)
    together = of_twice[:4] + np.array([0.0, of_twice[4] + of_twice[5], 0.0, 0.0])
    np.testing.assert_allclose(together, weights, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 10, 11, 40])
def test_equal_and_empty_matrices(count: int):
    for size in (0.0, 1.0, 1e12):
        flat = Quadratic(np.full((count, count), size), np.zeros(count))
        assert_feasible(best_weights(flat))
    linear = np.arange(count, 0.0, -1.0)
    weights = best_weights(Quadratic(np.ones((count, count)), linear))
    np.testing.assert_array_equal(weights, np.eye(count)[-1])


def test_a_common_part_of_all_kernels_costs_no_digits():
    """As with kernels near 1 everywhere, CMMD's for one."""
    quadratic = quadratic_of(3, 6, 9, slope=0.0)
    moved = Quadratic(1.0 + 1e-6 * quadratic.matrix, quadratic.linear)
    np.testing.assert_allclose(best_weights(moved), best_weights(quadratic), atol=1e-7)


def test_forty_generators_with_an_ill_conditioned_matrix():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    quadratic = Quadratic(basis @ np.diag(np.geomspace(1.0, 1e-5, 40)) @ basis.T, 0.01 * rng.standard_normal(40))
    weights = best_weights(quadratic)
    assert_feasible(weights)
    assert gap(quadratic, weights) < 1e-8


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_the_nearest_point_of_the_simplex(numbers: list[float]):
    point = np.array(numbers)
    found = on_simplex(point)
    assert_feasible(found)
    # What is kept is moved by one number, and what is left out lies below it.
    moved = (point - found)[found > 0.0]
    np.testing.assert_allclose(moved, moved[0], atol=1e-9)
    assert (point[found == 0.0] <= moved[0] + 1e-9).all()


@dataclass
class Entropic:
    """Σ_j p_j log p_j of the mixture p = Σ α_i P_i of laws on some values (G, m): convex, minus the entropy."""

    laws: Floats
    samples: tuple[int, ...] = field(init=False)
    asked: int = 0
    values: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.samples = (10,) * len(self.laws)

    def value(self, weights: Floats) -> float:
        blend = weights @ self.laws
        return float((blend * np.log(blend)).sum())

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        assert not published
        self.asked += 1
        blend = weights @ self.laws
        gradient = self.laws @ (np.log(blend) + 1.0)
        matrix = 0.5 * (self.laws / blend) @ self.laws.T
        linear = gradient - 2.0 * matrix @ weights
        constant = self.value(weights) - weights @ matrix @ weights - linear @ weights
        self.values.append(self.value(weights))
        return Quadratic(matrix, linear, float(constant))


@pytest.mark.parametrize("seed", range(8))
def test_a_convex_loss_is_minimised_in_few_models(seed: int):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(12, 0.3 if seed % 2 else 3.0), 5) + 1e-9
    loss = Entropic(laws / laws.sum(1, keepdims=True))
    weights = minimise(loss)
    assert_feasible(weights)
    gradient = loss.model(weights).gradient(weights)
    # The loss falls by the square of the gap in the last step, and that is less than 1e-12 of it.
    assert weights @ gradient - gradient.min() < 1e-5
    assert loss.asked <= 25
    rng = np.random.default_rng(0)
    assert loss.value(weights) <= min(loss.value(other) for other in rng.dirichlet(np.ones(5), 300)) + 1e-12


def test_an_exact_model_needs_one_check():
    quadratic = quadratic_of(0, 5, 7)

    class Exact:
        samples = (4,) * 5
        asked = 0

        def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
            self.asked += 1
            return quadratic if published else Quadratic(np.eye(5), np.zeros(5))

    loss = Exact()
    np.testing.assert_allclose(minimise(loss, published=True), best_weights(quadratic), atol=1e-12)
    assert loss.asked == 2
    np.testing.assert_allclose(minimise(loss), 0.2, atol=1e-12)
