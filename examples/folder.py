"""Replay of a folder: which of the models that made these files is best, and how many files are needed to decide?

In a clone of the repository:

    pip install -c constraints.txt '.[demo]'
    python examples/folder.py [FOLDER --reference REAL --embedder inception]

FOLDER has one folder of images per model, REAL is a folder of real images: `.npy` arrays, (h, w) or (h, w, 3), or any
format that Pillow opens. Without FOLDER, one is made from scikit-learn's digits. With FOLDER, install the extra of the
embedder, too (docs/embedders.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from local_service import options, scored_report, serving
from optimist_client import Optimist, embedders

EMBEDDERS: dict[str, Callable[[], embedders.Embedder]] = {
    "pixels": lambda: embedders.Function("pixels-64", 64, lambda images: np.reshape(images, (len(images), 64))),
    "efficientnet-lite": embedders.EfficientNetLite,
    "inception": embedders.InceptionV3,
    "dinov2": embedders.Dinov2,
    "clip": embedders.Clip,
    "swav": embedders.Swav,
}


def read(path: Path) -> np.ndarray:
    """An image (h, w) or (h, w, 3), floats in [0, 1] or uint8."""
    if path.suffix == ".npy":
        return np.load(path)
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def write_digits(folder: Path) -> None:
    """Folders of images (8, 8): `real` digits, and three models that redraw half of them with noise."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    images = rng.permutation(load_digits().images / 16)
    drawn, real = np.split(images, [len(images) // 2])
    models = {
        f"noise-{noise}": (drawn + noise * rng.standard_normal(drawn.shape)).clip(0, 1) for noise in (0.1, 0.2, 0.3)
    }
    for name, batch in {**models, "real": real}.items():
        (folder / name).mkdir()
        for number, image in enumerate(batch):
            np.save(folder / name / f"{number:04}.npy", image)


def main() -> None:
    """Tell files, by the order of their names, until a decision is made or no files are left."""
    parser = options(__doc__, budget=1_000_000)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--reference", type=Path, help="folder of real images (default: FOLDER/real)")
    parser.add_argument("--embedder", choices=EMBEDDERS, default="pixels", help="pixels: for grey images of 8 × 8")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        folder = chosen.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if chosen.folder is None:
            write_digits(folder)
        reference = chosen.reference or folder / "real"
        models = sorted(path for path in folder.iterdir() if path.is_dir() and path != reference)
        files = {path.name: sorted(path.iterdir()) for path in models}
        total = sum(map(len, files.values()))
        embed = EMBEDDERS[chosen.embedder]()
        optimist = stack.enter_context(Optimist(stack.enter_context(serving(chosen.url))))
        experiment = optimist.create_experiment(
            chosen.name or "folder",
            list(files),
            reference=embed([read(path) for path in sorted(reference.iterdir())]),
            embedding=embed.name,
            budget=min(chosen.budget, total),
        )
        used = 0
        for pick in experiment.picks():
            # Files of the same place in their folders are compared with each other.
            told = files[pick.generator][pick.start : pick.start + pick.size]
            if not told:
                pick.give_up("no more files")
                # This is never the last generator: the budget is spent with its last file.
                experiment.set_state(pick.generator, "paused")
                continue
            pick.tell(embed([read(path) for path in told]), ids=[path.as_uri() for path in told], embedding=embed.name)
            used += len(told)
        print(scored_report(experiment))
        print(f"{used:,} of {total:,} files were used")


if __name__ == "__main__":
    main()
