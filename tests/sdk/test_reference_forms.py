"""What a reference may be given as, and what is refused with its reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from optimist_client import FixError
from optimist_client.references import moments_of, names_file

ROWS = np.random.default_rng(0).standard_normal((40, 3))
MEAN, COVARIANCE = ROWS.mean(axis=0), np.cov(ROWS, rowvar=False)


def check(reference: object, samples: int | None, rtol: float = 1e-12):
    moments = moments_of(reference)
    np.testing.assert_allclose(moments.mean, MEAN, rtol=rtol)
    np.testing.assert_allclose(moments.covariance, COVARIANCE, rtol=rtol)
    assert moments.samples == samples
    assert moments.mean.dtype == moments.covariance.dtype == np.float64


def test_features_and_moments_of_numpy_and_torch():
    torch = pytest.importorskip("torch")
    check(ROWS, 40)
    check(ROWS.tolist(), 40)
    check((MEAN, COVARIANCE), None)
    check(torch.from_numpy(ROWS).requires_grad_(), 40)
    check((torch.from_numpy(MEAN), torch.from_numpy(COVARIANCE)), None)
    halves = torch.from_numpy(ROWS).to(torch.bfloat16)
    np.testing.assert_array_equal(moments_of(halves).mean, moments_of(halves.double().numpy()).mean)


def test_files(tmp_path: Path):
    np.savez(tmp_path / "fid.npz", mu=MEAN, sigma=COVARIANCE)
    np.savez(tmp_path / "ours.npz", mean=MEAN, covariance=COVARIANCE)
    np.savez(tmp_path / "more.npz", mu=MEAN, sigma=COVARIANCE, n=40, model="inception", notes=np.array([None]))
    np.savez(tmp_path / "rows.npz", features=ROWS)
    np.save(tmp_path / "rows.npy", ROWS)
    for name in ("fid.npz", "ours.npz", "more.npz", "rows.npz", "rows.npy"):
        samples = 40 if name.startswith("rows") else None
        check(tmp_path / name, samples)
        check(f"{tmp_path / name}", samples)
    assert names_file("fid.npz")
    assert not names_file("celeba")


def test_what_is_no_reference_is_refused(tmp_path: Path):
    np.savez(tmp_path / "other.npz", mu=MEAN, features=ROWS)
    (tmp_path / "damaged.npz").write_bytes(b"PK\3\4")
    np.save(tmp_path / "one.npy", ROWS[:1])
    for wrong, said in (
        (tmp_path / "other.npz", r"other\.npz: expected one array of features.*found mu, features"),
        (tmp_path / "damaged.npz", r"damaged\.npz: expected a readable"),
        ("nothing.npz", "no such file"),
        (tmp_path / "one.npy", r"one\.npy: features: expected shape \(n, d\) with n at least 2"),
        ((MEAN, COVARIANCE, ROWS), "samples: expected a number of rows, got an array of shape"),
        ([["a"], ["b"]], "array of real numbers"),
    ):
        with pytest.raises(FixError, match=said):
            moments_of(wrong)


def test_torch_is_not_imported_for_numpy():
    code = """
import sys
import numpy as np
from optimist_client.references import moments_of
moments_of(np.eye(3))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
