"""Makes the score of the declared metric InceptionScore."""

from __future__ import annotations

from optimist.metrics.implementations import Setting
from optimist.metrics.inception.bounds import InceptionNaiveBound, InceptionTheoremBound
from optimist.metrics.inception.score import InceptionScore
from optimist_client.metrics import InceptionScore as Declared

BOUNDS = {"theorem": InceptionTheoremBound, "naive": InceptionNaiveBound}


def make(declared: Declared, setting: Setting) -> InceptionScore:
    """The score of as many classes as the probabilities have columns."""
    return InceptionScore(setting.widths[declared.first_array()], device=setting.device)
