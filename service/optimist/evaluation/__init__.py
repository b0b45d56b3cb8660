"""The rooms of the numerics put together in memory: one score, or an evaluation asked and told. No I/O.

The service runs the same over HTTP and Redis; simulations, tests and notebooks run this.
"""

from optimist.evaluation.online import Evaluation
from optimist.evaluation.question import Question, declared_of
from optimist.evaluation.single import score
from optimist.evaluation.track import Track, first_rows

__all__ = ["Evaluation", "Question", "Track", "declared_of", "first_rows", "score"]
