"""The scorer: reads logs, keeps statistics warm, writes the estimates that are due."""

from optimist.scoring.scorer import Scorer

__all__ = ["Scorer"]
