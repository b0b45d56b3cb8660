"""A few rows in an eigenbasis, by the tridiagonal form, are what all eigenvectors give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from optimist.metrics.spectra import eigen, symmetric
from optimist.metrics.spectra.eigen import Tridiagonal, eigen_basis, eigen_coordinates
from optimist.metrics.spectra.symmetric import congruence, symmetric_product

SIZE = 90


@pytest.fixture(autouse=True)
def always_tridiagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigen, "TRIDIAGONAL_SIZE", 1)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def spectra() -> dict[str, Tensor]:
    steps = torch.arange(SIZE, dtype=torch.float64)
    return {
        "apart": steps + 1.0,
        "clustered": 1.0 + 1e-9 * steps,
        "decades": 10.0 ** (-steps / 6.0),
        "repeated": torch.where(steps < 40.0, 1.0, 3.0),
        "of low rank": torch.where(steps < 70.0, 0.0, steps),
        "of both signs": steps - 44.5,
        "zero": 0.0 * steps,
        "tiny": 1e-150 * (steps + 1.0),
        "huge": 1e150 * (steps + 1.0),
    }


def with_spectrum(eigenvalues: Tensor) -> Tensor:
    basis = torch.linalg.qr(drawn(SIZE, SIZE, seed=1))[0]
    matrix = basis * eigenvalues @ basis.T
    return 0.5 * (matrix + matrix.T)


@pytest.mark.parametrize("name", list(spectra()))
def test_coordinates_are_those_of_an_eigenbasis(name: str):
    matrix, rows = with_spectrum(spectra()[name]), drawn(7, SIZE, seed=2)
    eigenvalues, coordinates = eigen_coordinates(matrix, rows)
    size = float(matrix.abs().amax()) or 1.0
    expected = torch.linalg.eigvalsh(matrix)
    assert torch.allclose(eigenvalues / size, expected / size, rtol=0.0, atol=1e-12)
    # Whichever basis was taken of repeated eigenvalues' spaces, rows keep their products, with and without the matrix.
    assert torch.allclose(coordinates @ coordinates.T, rows @ rows.T, rtol=1e-10, atol=1e-10)
    products = (coordinates * (eigenvalues / size)) @ coordinates.T
    assert torch.allclose(products, rows @ (matrix / size) @ rows.T, rtol=1e-10, atol=1e-10)


def test_where_eigenvalues_lie_apart_they_are_the_eigenvectors_coordinates():
    matrix, rows = with_spectrum(spectra()["apart"]), drawn(5, SIZE, seed=3)
    values, vectors = torch.linalg.eigh(matrix)
    eigenvalues, coordinates = eigen_coordinates(matrix, rows)
    assert torch.allclose(eigenvalues, values, rtol=1e-12, atol=0.0)
    assert torch.allclose(coordinates.abs(), (rows @ vectors).abs(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("size", [1, 2, 3, 33])
def test_matrices_of_any_size(size: int):
    half = drawn(size, size)
    matrix = half @ half.T
    reduced = Tridiagonal(matrix)
    values, vectors = reduced.eigen()
    basis = reduced.rotated(torch.eye(size, dtype=torch.float64)) @ vectors
    assert torch.allclose(basis * values @ basis.T, matrix, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", list(spectra()))
def test_eigenvectors_are_an_orthogonal_basis_that_makes_the_matrix(name: str):
    matrix = with_spectrum(spectra()[name])
    values, vectors = eigen_basis(matrix)
    size = float(matrix.abs().amax()) or 1.0
    assert torch.allclose(vectors.T @ vectors, torch.eye(SIZE, dtype=torch.float64), rtol=0.0, atol=1e-12)
    assert torch.allclose(vectors * (values / size) @ vectors.T, matrix / size, rtol=0.0, atol=1e-12)


def test_neither_matrix_nor_rows_change():
    matrix, rows = with_spectrum(spectra()["apart"]), drawn(3, SIZE)
    before = matrix.clone(), rows.clone()
    eigen_coordinates(matrix, rows)
    assert torch.equal(matrix, before[0])
    assert torch.equal(rows, before[1])


def test_strided_rows_and_leading_dimensions():
    matrix, rows = with_spectrum(spectra()["apart"]), drawn(SIZE, 4).T
    values, coordinates = eigen_coordinates(matrix, rows)
    many = eigen_coordinates(matrix.expand(2, 3, -1, -1), rows.expand(2, 3, -1, -1))
    assert torch.allclose(many[0], values.expand(2, 3, -1), rtol=1e-12, atol=0.0)
    assert torch.allclose(many[1].abs(), coordinates.abs().expand(2, 3, -1, -1), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("entry", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_is_refused(entry: float):
    matrix = torch.eye(SIZE, dtype=torch.float64)
    matrix[3, 3] = entry
    with pytest.raises(ArithmeticError, match="not finite"):
        eigen_coordinates(matrix, drawn(2, SIZE))


@pytest.mark.parametrize("shape", [(1, 4), (9, 4), (10, 30), (25, 25)])
def test_products_by_panels(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(symmetric, "PANEL", 4)
    rows = drawn(*shape)
    gram = symmetric_product(rows, rows.T)
    assert torch.allclose(gram, rows @ rows.T, rtol=1e-12, atol=1e-12)
    assert torch.equal(gram, gram.T)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (9, 9), (10, 13)])
def test_a_triangular_factor_on_both_sides(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(symmetric, "PANEL", 4)
    factor, half = drawn(*shape).triu(), drawn(shape[1], shape[1], seed=1)
    matrix = half + half.T
    found = congruence(factor, matrix)
    assert torch.allclose(found, factor @ matrix @ factor.T, rtol=1e-12, atol=1e-12)
    assert torch.equal(found, found.T)
    upper, lower = symmetric.times_upper(half[:3, : shape[0]], factor), symmetric.times_lower(half[:3], factor)
    assert torch.allclose(upper, half[:3, : shape[0]] @ factor, rtol=1e-12, atol=1e-12)
    assert torch.allclose(lower, half[:3] @ factor.T, rtol=1e-12, atol=1e-12)
