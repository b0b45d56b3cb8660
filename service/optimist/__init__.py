"""Optimist names the best of several generative models with the fewest samples.

Names are loaded on first use: the SDK needs only the base install; `score`, `contrast`, `gate`, `mixture`, `run`,
`compare` and `Evaluation` the `scoring` extra, `simulate` the extra of its name, `StreamingScore` the extra
`torchmetrics`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist.estimates.estimate import Estimate
    from optimist.local.answer import CompareResult
    from optimist.local.compare import compare
    from optimist.local.contrast import Comparison, contrast, mixture
    from optimist.local.evaluation import Evaluation
    from optimist.local.gate import gate
    from optimist.local.run import run
    from optimist.local.single import score
    from optimist.local.streaming_score import StreamingScore
    from optimist.simulation.laboratory import simulate
    from optimist_client import Optimist

__version__ = "0.1.0"
__all__ = [
    "CompareResult",
    "Comparison",
    "Estimate",
    "Evaluation",
    "Optimist",
    "StreamingScore",
    "__version__",
    "compare",
    "contrast",
    "gate",
    "mixture",
    "run",
    "score",
    "simulate",
]

_HOMES = {
    "CompareResult": "optimist.local.answer",
    "Comparison": "optimist.local.contrast",
    "Estimate": "optimist.estimates.estimate",
    "Evaluation": "optimist.local.evaluation",
    "Optimist": "optimist_client",
    "StreamingScore": "optimist.local.streaming_score",
    "compare": "optimist.local.compare",
    "contrast": "optimist.local.contrast",
    "gate": "optimist.local.gate",
    "mixture": "optimist.local.contrast",
    "run": "optimist.local.run",
    "score": "optimist.local.single",
    "simulate": "optimist.simulation.laboratory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optimist' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("optimist", "optimist_client"):
            raise
        from optimist_client.installed import install_hint

        hint = install_hint({"simulate": "simulate", "StreamingScore": "torchmetrics"}.get(name, "scoring"))
        raise ModuleNotFoundError(f"optimist.{name} needs {error.name}: {hint}", name=error.name) from None


def __dir__() -> list[str]:
    return sorted(__all__)
