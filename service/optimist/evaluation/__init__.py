"""In memory: `score` one set of samples, `contrast` several, their best `mixture`; ask and tell an `Evaluation`.

The service does the same over HTTP and Redis. Simulations, tests and notebooks use this package.
"""

from optimist.evaluation.blends import mixture
from optimist.evaluation.comparison import Comparison, contrast
from optimist.evaluation.online import Evaluation
from optimist.evaluation.question import Question, declared_of, prepared, with_real_data
from optimist.evaluation.single import score
from optimist.evaluation.track import Track, first_rows

__all__ = [
    "Comparison",
    "Evaluation",
    "Question",
    "Track",
    "contrast",
    "declared_of",
    "first_rows",
    "mixture",
    "prepared",
    "score",
    "with_real_data",
]
