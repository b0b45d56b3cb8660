"""Embedders convert samples to rows of features for `tell`. Each has a `dimension` and a `name`.

Importing this package loads no heavy libraries. Creating an embedder imports what it needs; if a library is missing,
the error names the extra to install. See docs/embedders.md.
"""

from optimist_client.embedders.base import Embedder, Function
from optimist_client.embedders.images import Clip, Dinov2, EfficientNetLite, InceptionV3, Swav
from optimist_client.embedders.networks import Classifier, Network
from optimist_client.embedders.texts import OpenAIEmbeddings, Sentences
from optimist_client.embedders.videos import VideoMAE

__all__ = [
    "Classifier",
    "Clip",
    "Dinov2",
    "EfficientNetLite",
    "Embedder",
    "Function",
    "InceptionV3",
    "Network",
    "OpenAIEmbeddings",
    "Sentences",
    "Swav",
    "VideoMAE",
]
