"""The metrics. Each is declared once, as a class with its settings as fields and its properties as class variables."""

from optimist_client.metrics.base import Metric, Scale, declare, declared, find
from optimist_client.metrics.fid import FID
from optimist_client.metrics.inception import InceptionScore
from optimist_client.metrics.kernel import RKE, Cosine, Gaussian, Kernel, Nystrom, Vendi
from optimist_client.metrics.kid import KID
from optimist_client.metrics.mean import Mean, WinRate
from optimist_client.metrics.mmd import CMMD, MMD
from optimist_client.metrics.neighbours import Coverage, Density, Precision
from optimist_client.metrics.novelty import KEN
from optimist_client.metrics.pairs import ConditionalVendi, InformationVendi

__all__ = [
    "CMMD",
    "FID",
    "KEN",
    "KID",
    "MMD",
    "RKE",
    "ConditionalVendi",
    "Cosine",
    "Coverage",
    "Density",
    "Gaussian",
    "InceptionScore",
    "InformationVendi",
    "Kernel",
    "Mean",
    "Metric",
    "Nystrom",
    "Precision",
    "Scale",
    "Vendi",
    "WinRate",
    "declare",
    "declared",
    "find",
]
