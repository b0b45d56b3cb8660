"""Previews of samples: thumbnails and texts that people look at."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimist_client.errors import FixError
from optimist_client.previews import FEATURES, LARGEST, LARGEST_FEATURE, MAX_SENT
from optimist_client.wire import Answer, GeneratorName, Wire

PreviewKind = Literal[
    "image/png", "image/jpeg", "image/webp", "text/plain", "audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"
]


class NewPreview(Wire):
    """A preview of one sample of a batch: an image, a text, or a sound."""

    place: Annotated[int, Field(ge=0, lt=2**31)]
    """The row of the sample in its batch, counted from 0."""
    image: Annotated[str, Field(max_length=4 * LARGEST // 3 + 4)] | None = None
    """A PNG, JPEG or WebP file of at most 64 KiB and 2,048 pixels a side, in base64."""
    text: Annotated[str, Field(min_length=1, max_length=LARGEST)] | None = None
    """A text of at most 64 KiB in UTF-8."""
    audio: Annotated[str, Field(max_length=4 * LARGEST // 3 + 4)] | None = None
    """A WAV, MP3, Ogg or FLAC file of at most 64 KiB, in base64."""
    prompt: str | None = None
    """The sample's prompt, of which the first 500 characters are kept."""
    features: Annotated[
        list[Annotated[float, Field(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE)]], Field(max_length=FEATURES)
    ] = Field(default_factory=list[float])
    """Numbers by which samples are compared, as many of each: those of near ones are near. The SDK sends the row, or 64
    numbers that keep the distances of longer rows. Without them the sample is in no mode of `Previews`."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if [self.image, self.text, self.audio].count(None) != 2:
            raise FixError("expected an image, a text, or a sound")
        return self


class PreviewRequest(Wire):
    """Previews of samples of a pick that was told."""

    start: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    """`Pick.start`, the index of the first sample, by which previews of several generators stand side by side."""
    previews: Annotated[list[NewPreview], Field(min_length=1, max_length=MAX_SENT)]


class PreviewReply(Answer):
    """The outcome of the previews of a request."""

    generator: GeneratorName
    kept: int
    """Number of them that are kept; the others gave way to newer ones, or to those of other indices."""


class PreviewInfo(Answer):
    """A preview that is kept."""

    id: str
    """Its name in `GET /v1/experiments/{name}/previews/{id}`, which answers with its bytes."""
    generator: GeneratorName
    pick: int
    place: int
    """The row of the sample in its batch, counted from 0."""
    position: int
    """Position of its batch in the generator's log."""
    index: int | None
    """Index of the sample in the generator's sequence: samples of the same index have the same prompt, and in a paired
    experiment the same seed. None where the worker named none."""
    prompt: str | None
    kind: PreviewKind
    bytes: int
    digest: str
    """SHA-256 of its bytes, the first 16 digits: equal for equal previews."""
    width: int | None
    """Pixels of an image; None of a text."""
    height: int | None
    text: str | None
    """The first 300 characters of a text; None of an image."""
    mode: int | None = None
    """A group of the kept samples of all generators whose features are alike, 0 the largest one. None if modes were not
    asked for, and for a sample without features."""
    alike: int | None = None
    """A group of nearly identical samples of its generator in its mode, 0 the largest one."""
    central: bool = False
    """True if it is the sample of its mode that is nearest to the centre."""


class Previews(Answer):
    """The previews that an experiment keeps."""

    most: int
    """Number of previews kept of each generator; 0: none."""
    previews: list[PreviewInfo]
    """Previews by generator, of each the newest first."""
