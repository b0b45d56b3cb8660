"""Scores and evaluations in memory, without I/O: `score` for one set of samples, `Evaluation` to ask and tell.

The service does the same over HTTP and Redis. Simulations, tests and notebooks use this package.
"""

from optimist.evaluation.online import Evaluation
from optimist.evaluation.question import Question, declared_of
from optimist.evaluation.single import score
from optimist.evaluation.track import Track, first_rows

__all__ = ["Evaluation", "Question", "Track", "declared_of", "first_rows", "score"]
