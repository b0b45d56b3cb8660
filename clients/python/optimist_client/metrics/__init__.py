"""The declared metrics: one class each, with the settings as fields and the facts as class variables."""

from optimist_client.metrics.base import Metric, Scale, declare, declared, find
from optimist_client.metrics.fid import FID
from optimist_client.metrics.inception import InceptionScore
from optimist_client.metrics.kernel import RKE, Cosine, Gaussian, Kernel, Nystrom, Vendi
from optimist_client.metrics.pairs import ConditionalVendi, InformationVendi

__all__ = [
    "FID",
    "RKE",
    "ConditionalVendi",
    "Cosine",
    "Gaussian",
    "InceptionScore",
    "InformationVendi",
    "Kernel",
    "Metric",
    "Nystrom",
    "Scale",
    "Vendi",
    "declare",
    "declared",
    "find",
]
