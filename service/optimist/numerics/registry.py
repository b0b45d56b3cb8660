"""The module that implements each declared metric. It is imported at first use, so the API never imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from optimist_client.errors import FixError
from optimist_client.metrics import (
    CMMD,
    FID,
    KEN,
    KID,
    MMD,
    RKE,
    ConditionalVendi,
    Coverage,
    Density,
    InceptionScore,
    InformationVendi,
    Mean,
    Metric,
    Precision,
    Vendi,
    WinRate,
    declare,
)

_MODULES: dict[str, str] = {}


def register(metric: type[Metric], module: str) -> None:
    """Register a declared metric, with the name of the module that implements it, as
    `metrics.implementations.Implementation` describes.

    Raises FixError if another class has the metric's name.
    """
    _MODULES[declare(metric).name] = module


def load(modules: Iterable[str]) -> None:
    """Import modules that register metrics, by name. Raises `FixError`, naming the module, where that fails."""
    for module in modules:
        try:
            import_module(module)
        except Exception as error:
            raise FixError(f"OPTIMIST_METRICS: cannot import {module!r}: {error}") from error


def module_of(metric: str) -> ModuleType:
    """The module of the metric of this name. Raises FixError where no module implements it."""
    if metric not in _MODULES:
        raise FixError(f"no module implements the metric {metric!r}: expected one of {', '.join(_MODULES)}")
    return import_module(_MODULES[metric])


register(FID, "optimist.metrics.fid.declared")
register(InceptionScore, "optimist.metrics.inception")
register(RKE, "optimist.metrics.vendi.declared")
register(Vendi, "optimist.metrics.vendi.declared")
register(ConditionalVendi, "optimist.metrics.pairs")
register(InformationVendi, "optimist.metrics.pairs")
register(Mean, "optimist.metrics.mean")
register(WinRate, "optimist.metrics.mean")
register(Precision, "optimist.metrics.neighbours")
register(Density, "optimist.metrics.neighbours")
register(Coverage, "optimist.metrics.neighbours")
register(KEN, "optimist.metrics.novelty")
register(MMD, "optimist.metrics.mmd")
register(CMMD, "optimist.metrics.mmd")
register(KID, "optimist.metrics.kid")
