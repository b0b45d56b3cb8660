"""Pins images by digest in the manifests and in compose.yaml: `python deploy/pin.py NAME=REPOSITORY[:TAG]@sha256:… …`.

NAME is an image as the files call it, such as `optimist-api` or `redis`. The release workflow runs it with the images
that it has just pushed, and with those of Redis, nginx and Prometheus as their registry has them at that moment.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINNED = re.compile(
    r"(?P<name>[\w./-]+)=(?P<repository>[\w./-]+(:\d+/[\w./-]+)?)(:[\w.-]+)?@(?P<digest>sha256:[0-9a-f]{64})"
)


def pin(root: Path, images: list[str]) -> None:
    """Write the images into the files below `root`. Raises ValueError, before anything is written, for one that has no
    digest, or that no file names."""
    found = {image: PINNED.fullmatch(image) for image in images}
    if wrong := [image for image, match in found.items() if match is None]:
        raise ValueError(f"expected NAME=REPOSITORY@sha256:…, got {', '.join(wrong)}")
    pins = {match["name"]: (match["repository"], match["digest"]) for match in found.values() if match}
    manifests, compose = root / "deploy" / "kubernetes", root / "docker" / "compose.yaml"
    used = {
        name
        for file in (compose, *manifests.rglob("*.yaml"))
        for name in re.findall(r"image: ([\w./-]+):", file.read_text())
    }
    if unknown := pins.keys() - used:
        raise ValueError(f"no file names {', '.join(sorted(unknown))}: they name {', '.join(sorted(used))}")
    component = manifests / "components" / "images" / "kustomization.yaml"
    lines = [
        f"  - {{name: {name}, newName: {repository}, digest: {digest!r}}}\n"
        for name, (repository, digest) in sorted(pins.items())
    ]
    component.write_text(re.sub(r"^images:.*", "images:\n" + "".join(lines), component.read_text(), flags=re.M | re.S))
    text = compose.read_text()
    for name, (repository, digest) in pins.items():
        text = re.sub(rf"image: {re.escape(name)}[:@]\S+", f"image: {repository}@{digest}", text)
    compose.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="+", metavar="NAME=IMAGE")
    try:
        pin(ROOT, parser.parse_args().images)
    except ValueError as error:
        sys.exit(f"pin: {error}")
