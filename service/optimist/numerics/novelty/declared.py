"""Makes the score of the declared metric KEN."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from optimist.numerics.feature_maps import Cosine, gaussian_kernel
from optimist.numerics.kernel.maps import make_feature_map
from optimist.numerics.novelty.reference import RealRows
from optimist.numerics.novelty.score import NoveltyScore
from optimist.numerics.novelty.spectrum import exact_eigenvalues, ken
from optimist.numerics.real_data import RealData
from optimist.numerics.registry import Setting
from optimist_client.metrics import KEN


def make(declared: KEN, setting: Setting) -> NoveltyScore:
    """The score by the kernel's feature map. Raises ValueError without a reference or a kernel, or if it is open."""
    if not isinstance(declared.reference, RealRows):
        raise ValueError(f"the metric {declared.name!r} needs a reference: rows of real features")
    if declared.kernel is None:
        raise ValueError(f"the metric {declared.name!r} needs a kernel, such as dict(name='gaussian', sigma=10.0)")
    feature_map = make_feature_map(declared.kernel, declared.reference.dimension, setting.device)
    return NoveltyScore(feature_map, declared.reference, declared.eta)


def reference(declared: KEN, data: RealData, device: torch.device | str) -> RealRows:
    """The rows, and later their second moment of φ. Raises ValueError where the rows were not kept."""
    if data.rows is None:
        raise ValueError(
            f"the metric {declared.name!r} needs the rows of real features; this reference holds only their mean and "
            "covariance"
        )
    return RealRows(data.rows, device)


def exact(declared: KEN, arrays: Mapping[str, Tensor]) -> float:
    """KEN of one batch by the exact kernel, with an (n + m) × (n + m) matrix."""
    rows, real = arrays["features"], declared.reference.rows
    assert declared.kernel is not None
    if declared.kernel.name == "cosine":
        rows, real = (Cosine(part.shape[1], part.device)(part) for part in (rows, real))
        matrices = rows @ rows.T, rows @ real.T, real @ real.T
    else:
        sigma = float(declared.kernel.sigma or 1.0)
        matrices = tuple(gaussian_kernel(*pair, sigma) for pair in ((rows, rows), (rows, real), (real, real)))
    own, cross, known = matrices
    return ken(exact_eigenvalues(own, cross, known, declared.eta))
