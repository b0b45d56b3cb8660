"""The scorer: reads logs, caches statistics, writes the estimates that are due."""

from optimist.scoring.scorer import Scorer

__all__ = ["Scorer"]
