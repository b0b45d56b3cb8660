"""A kernel as callers give it, checked: every refusal is a ValueError that says what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.numerics.batches import check_rows
from optimist.numerics.checks import check_number, check_whole, real_array
from optimist.numerics.feature_maps import check_sigma
from optimist.numerics.kernel.open_kernels import DEFAULT_FEATURES, MEDIAN

NAMES = ("gaussian", "nystrom", "cosine")
KNOWN = ("name", "sigma", "features", "seed", "omegas", "landmarks")


@dataclass(frozen=True, eq=False)
class KernelSettings:
    """A kernel given as a mapping, checked: see `make_feature_map` for what it may hold."""

    name: str
    sigma: float | str | None
    """None where the kernel has none: cosine, and frequencies as they are."""
    features: int | None
    """r, or the number of landmarks; None is the exact kernel by its n × n matrix."""
    seed: int
    omegas: NDArray[np.float64] | None
    landmarks: NDArray[np.float64] | None

    @classmethod
    def of(cls, kernel: Any, field: str = "kernel") -> KernelSettings:
        """The settings in a mapping. Raises ValueError, beginning with `field`, for anything that makes no sense.

        A setting without a meaning for the kernel must be missing or None, but `features` and `seed`: a config on the
        wire always has them.
        """
        if not isinstance(kernel, Mapping):
            raise ValueError(f"{field}: expected a mapping such as dict(name='gaussian', sigma=10.0), got {kernel!r}")
        foreign = [f"{key}" for key in kernel if key not in KNOWN]
        if foreign:
            raise ValueError(f"{field}: expected {', '.join(KNOWN)}; got {', '.join(sorted(foreign))}")
        name = kernel.get("name", "gaussian")
        if name not in NAMES:
            raise ValueError(f"{field}: expected name 'gaussian', 'nystrom' or 'cosine', got {name!r}")
        omegas, landmarks = (_matrix(f"{field}: {key}", kernel.get(key)) for key in ("omegas", "landmarks"))
        misplaced = {
            "omegas": omegas is not None and name != "gaussian",
            "landmarks": landmarks is not None and name != "nystrom",
            "sigma": kernel.get("sigma") is not None and (name == "cosine" or omegas is not None),
        }
        if any(misplaced.values()):
            of_what = f"the {name} kernel" if omegas is None or name != "gaussian" else "a kernel with omegas"
            raise ValueError(f"{field}: {of_what} has no {', '.join(key for key, is_so in misplaced.items() if is_so)}")
        sigma = None if name == "cosine" or omegas is not None else _sigma(kernel.get("sigma"), name, field)
        features = _features(kernel, name, omegas, landmarks, field)
        return cls(name, sigma, features, check_whole(f"{field}: seed", kernel.get("seed", 0), 0), omegas, landmarks)

    @property
    def dimension(self) -> int | None:
        """d, where the settings tell it."""
        if self.omegas is not None:
            return self.omegas.shape[0]
        return None if self.landmarks is None else self.landmarks.shape[1]

    @property
    def width(self) -> int | None:
        """The columns of φ, where the settings tell them: those of `cosine` are the samples', the exact kernel's n."""
        if self.features is None or self.name == "cosine":
            return None
        return 2 * self.features if self.name == "gaussian" else self.features


def pair_settings(kernel: Any, prompt_kernel: Any) -> tuple[KernelSettings, KernelSettings]:
    """The kernels of samples and of prompts, both with the r of `kernel`, or its exactness.

    Raises ValueError as `KernelSettings.of` does, where the prompts' kernel asks for another r, and on kernels that are
    not gaussian; exact ones may be cosine.
    """
    of_samples, of_prompts = KernelSettings.of(kernel), KernelSettings.of(prompt_kernel, "prompt_kernel")
    allowed = ("gaussian",) if of_samples.features is not None else ("gaussian", "cosine")
    if not {of_samples.name, of_prompts.name} <= set(allowed):
        raise ValueError("kernel: scores of pairs need gaussian kernels, whose product is one again")
    asked = "features" in prompt_kernel or of_prompts.omegas is not None
    if asked and of_prompts.features != of_samples.features:
        found = f"{of_samples.features}, got {of_prompts.features}"
        raise ValueError(f"prompt_kernel: features: expected as many as the kernel's {found}")
    return of_samples, replace(of_prompts, features=of_samples.features)


def _matrix(name: str, values: Any) -> NDArray[np.float64] | None:
    if values is None:
        return None
    matrix = real_array(name, values)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{name}: expected a matrix with entries, got shape {matrix.shape}")
    check_rows(name, matrix, matrix.shape[1])
    return matrix


def _sigma(sigma: Any, name: str, field: str) -> float | str:
    if sigma is None:
        raise ValueError(f"{field}: the {name} kernel needs sigma, its bandwidth, as a number or {MEDIAN!r}")
    if isinstance(sigma, str):
        if sigma != MEDIAN:
            raise ValueError(f"{field}: sigma: expected a number or {MEDIAN!r}, got {sigma!r}")
        return sigma
    return check_sigma(check_number(f"{field}: sigma", sigma))


def _features(kernel: Mapping[str, Any], name: str, omegas: Any, landmarks: Any, field: str) -> int | None:
    features = kernel.get("features", DEFAULT_FEATURES)
    if features is None:
        if name == "nystrom" or omegas is not None:
            raise ValueError(f"{field}: features=None, the exact kernel, is 'gaussian' with sigma, or 'cosine'")
        return None
    features = check_whole(f"{field}: features", features, 1)
    if omegas is not None:
        if "features" in kernel and features != omegas.shape[1]:
            raise ValueError(f"{field}: features: expected the {omegas.shape[1]} of omegas, got {features}")
        return omegas.shape[1]
    # Of a kernel that samples fixed, `features` is what was asked for.
    return features if landmarks is None else len(landmarks)
