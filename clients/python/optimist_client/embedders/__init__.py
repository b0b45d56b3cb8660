"""Embedders: samples in, the rows that a pick is told with out. Each knows its `dimension` and its `name`.

Importing this brings no heavy library; making an embedder imports what it needs, and names the extra to install where
that is missing. See docs/embedders.md.
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
