"""Scores of one set of pairs without random features: spectra of the n × n kernel matrices themselves."""

from __future__ import annotations

from torch import Tensor

from optimist.metrics.vendi.entropy import eigenvalues_of
from optimist.metrics.vendi.exact import Kernel, exact_kernel
from optimist_client.errors import FixError


def exact_spectra(
    features: Tensor,
    prompts: Tensor,
    *,
    kernel: Kernel = "gaussian",
    sigma: float = 1.0,
    prompt_kernel: Kernel = "gaussian",
    prompt_sigma: float = 1.0,
) -> dict[str, Tensor]:
    """Eigenvalues (n) of K_X/n, K_T/n and K_X ⊙ K_T/n of pairs of rows (n, d) and (n, d_t) (equations.md §4).

    They stand under "features", "prompts" and "joint", as `ConditionedScore.of_spectra` takes them. Each side has its
    kernel and bandwidth as in `exact_spectrum`. Raises FixError as that does, and unless there are as many prompts.
    """
    if len(features) != len(prompts):
        raise FixError(f"expected as many prompts as features, not {len(prompts)} for {len(features)}")
    of_features, of_prompts = exact_kernel(features, kernel, sigma), exact_kernel(prompts, prompt_kernel, prompt_sigma)
    kernels = {"features": of_features, "prompts": of_prompts, "joint": of_features * of_prompts}
    return {part: eigenvalues_of(matrix / len(matrix)) for part, matrix in kernels.items()}
