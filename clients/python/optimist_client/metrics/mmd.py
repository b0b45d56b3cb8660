"""The maximum mean discrepancy from real data, and CMMD, which is one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optimist_client.metrics.base import declare
from optimist_client.metrics.kernel import MEDIAN, Gaussian, Kernel
from optimist_client.metrics.real_rows import AgainstRows


@declare
class MMD(AgainstRows):
    """The squared distance of the generator's mean from the mean of real data, in a kernel's features (MMD²).

    The estimate is unbiased: 0 on average for a perfect generator, so that half of the scores are below 0.
    """

    name = "mmd"
    implementation = "optimist.metrics.mmd"
    title = "MMD²"
    lower_is_better = True
    offers = frozenset({"mixtures"})

    kernel: Kernel = Gaussian(MEDIAN)
    """Kernel of the features. The real data fixes open settings: the bandwidth "median" is its median distance,
    landmarks are its rows."""
    normalise: bool = False
    """True if rows are scaled to norm 1 first; rows of zeros are then refused."""
    factor: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] = 1.0
    """Factor of the score."""

    @property
    def directed(self) -> frozenset[str]:
        """The features, if they are scaled to norm 1."""
        return frozenset(self.arrays if self.normalise or self.kernel.name == "cosine" else ())


@declare
class CMMD(MMD):
    """MMD² of CLIP embeddings of norm 1 with a Gaussian kernel of bandwidth 10, times 1000, without the usual bias.

    Embed images by CLIP ViT-L/14 at 336 pixels, whose rows have 768 columns, to compare with published scores.
    """

    name = "cmmd"
    implementation = "optimist.metrics.mmd"
    title = "CMMD"

    kernel: Kernel = Gaussian(10.0, features=768)
    """Kernel of the embeddings. The default has a frequency for each column of CLIP's embeddings, which suffices."""
    normalise: bool = True
    """True if embeddings are scaled to norm 1 first, as published."""
    factor: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] = 1000.0
    """Factor of the score."""
