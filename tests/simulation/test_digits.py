import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from optimist.simulation.digits.demo import play_unpaired, saved_by_pairing
from optimist.simulation.digits.generators import TEXTS
from tests.support.configs import config_of

NAMES = {"vae-0.5", "vae-0.75", "vae-1.0", "vae-1.3", "gmm-40", "kde-0.2", "pca-gaussian", "pixel-gaussian"}
PROMPTED = {
    "class-gaussian-0.3",
    "class-gaussian-0.7",
    "class-gmm-4",
    "class-kde-0.05",
    "class-kde-0.1",
    "heedless-vae-0.5",
}
SOME = [TEXTS[digit] for digit in (3, 1, 4, 1, 5, 9, 2, 6)]

OTHER_PROCESS = """
import hashlib, json, sys
from pathlib import Path
from optimist.simulation.digits.world import load

digits, prompts = load(Path(sys.argv[1]), progress=False), json.loads(sys.argv[2])
made = {n: g.sample(5, 7) for n, g in digits.generators.items()}
made |= {n: g.sample(prompts, 7) for n, g in digits.prompted.items()} | {"embeddings": digits.embeddings(prompts)}
hashes = {n: hashlib.sha256(array.tobytes()).hexdigest() for n, array in made.items()}
print(json.dumps({**hashes, "torch": "torch" in sys.modules, "sklearn": "sklearn" in sys.modules}))
"""


def fid(features, reference):
    """The plain plug-in FID (equations.md §1)."""
    mean, covariance, *_ = reference
    features = features.astype(np.float64)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    own = np.cov(features, rowvar=False, bias=True)
    cross = np.sqrt(np.linalg.eigvalsh(root @ own @ root).clip(0)).sum()
    return np.sum((features.mean(axis=0) - mean) ** 2) + np.trace(own) + np.trace(covariance) - 2 * cross


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(NAMES | PROMPTED))
def test_images_are_new_and_pure_in_what_they_are_asked_by(digits, name):
    assert (set(digits.generators), set(digits.prompted)) == (NAMES, PROMPTED)
    generator = digits.generators.get(name) or digits.prompted[name]
    none, some, many = (0, 5, 50) if name in NAMES else ([], SOME, 5 * TEXTS)
    first = generator.sample(some, seed=1)
    np.testing.assert_array_equal(generator.sample(some, seed=1), first)
    assert not np.array_equal(generator.sample(some, seed=2), first)
    assert generator.sample(none, seed=1).shape == (0, 64)
    for wrong, seed in [(-1, 0), (5, -1)] if name in NAMES else [(["a cat"], 0), (SOME, -1)]:
        with pytest.raises(ValueError, match="a handwritten 3" if wrong == ["a cat"] else None):
            generator.sample(wrong, seed)
    images = generator.sample(many, seed=3)
    assert (images.shape, images.dtype) == ((50, 64), np.float32)
    assert 0.0 <= images.min() <= images.max() <= 1.0
    assert len(np.unique(images, axis=0)) == 50


@pytest.mark.long
def test_another_process_draws_the_same_bits_and_needs_no_torch(digits, digits_cache):
    command = [sys.executable, "-c", OTHER_PROCESS, str(digits_cache), json.dumps(SOME)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    made = {name: generator.sample(5, 7) for name, generator in digits.generators.items()}
    made |= {name: generator.sample(SOME, 7) for name, generator in digits.prompted.items()}
    made["embeddings"] = digits.embeddings(SOME)
    hashes = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in made.items()}
    assert told == {**hashes, "torch": False, "sklearn": False}


@pytest.mark.long
def test_images_and_labels_are_scikit_learns_and_the_network_reads_them(digits):
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(digits.images * 16, images)
    np.testing.assert_array_equal(digits.labels, labels)
    assert digits.accuracy > 0.95, "of digits that it was not trained on"
    assert (digits.probabilities(digits.images).argmax(axis=1) == labels).mean() > 0.95


@pytest.mark.long
def test_features_and_probabilities(digits):
    images = digits.generators["vae-1.0"].sample(5, seed=0)
    features, probabilities = digits.features(images), digits.probabilities(images)
    assert features.shape == (5, 64)
    assert probabilities.shape == (5, 10)
    assert features.dtype == probabilities.dtype == np.float32
    assert np.isfinite(features).all()
    assert features.min() >= 0.0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(digits.features(images[:0]), np.empty((0, 64)))


@pytest.mark.long
def test_every_feature_carries_information(digits):
    mean, covariance, samples, some_rows = digits.reference()
    assert mean.dtype == covariance.dtype == np.float64
    assert samples == len(digits.images)
    assert some_rows.shape == (256, 64)
    assert np.linalg.matrix_rank(covariance) == 64
    features = digits.features(digits.images).astype(np.float64)
    centred = features - features.mean(axis=0)
    np.testing.assert_allclose(covariance, centred.T @ centred / (len(features) - 1), rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_the_contest_is_fair_but_decidable(digits):
    """The winner leads by more than four standard errors at 1,000 samples each, and by none that 10 samples show."""
    reference = digits.reference()

    def features(name: str, size: int) -> np.ndarray:
        return digits.features(digits.generators[name].sample(size, seed=12345))

    rough = {name: fid(features(name, 4_000), reference) for name in digits.generators}
    best, second, *_ = sorted(rough, key=rough.__getitem__)
    assert best == "gmm-40"
    drawn = {name: features(name, 20_000) for name in (best, second)}
    spread = {
        (name, n): np.std([fid(rows, reference) for rows in np.split(drawn[name][: 20 * n], 20)])
        for name, n in [(best, 10), (second, 10), (best, 1000), (second, 1000)]
    }
    gap = fid(drawn[second], reference) - fid(drawn[best], reference)
    assert gap > 4 * np.hypot(spread[best, 1000], spread[second, 1000])
    assert gap < np.hypot(spread[best, 10], spread[second, 10])


@pytest.mark.long
def test_the_demo_s_family_answers_a_seed_alike_and_has_one_best(digits):
    """Most of the noise in the difference of neighbours is common, so that the same seeds show it sooner."""
    reference = digits.reference()
    best, second = "vae-1.4", "vae-1.3"
    rough = {name: fid(digits.features(made.sample(4_000, seed=5)), reference) for name, made in digits.family.items()}
    assert sorted(rough, key=rough.__getitem__)[:2] == [best, second]
    drawn = [digits.features(digits.family[name].sample(4_000, seed=6)) for name in (best, second)]
    found = np.array([[fid(part, reference) for part in np.split(rows, 40)] for rows in drawn])
    apart = found[1] - found[0]
    assert apart.std() < 0.5 * np.hypot(*found.std(axis=1))


@pytest.mark.long
def test_the_demo_is_played_again_unpaired_as_far_as_its_budget(digits, digits_cache, monkeypatch):
    monkeypatch.setenv("OPTIMIST_CACHE", str(digits_cache))
    kernel = {"name": "gaussian", "sigma": 5.0, "features": 16}
    metric = {"metric": "rke", "dimension": 64, "kernel": kernel}
    config = config_of(name="x", generators=["x"], policy="top-two", budget=123, **metric)
    played = play_unpaired(config)
    assert not played.decided
    assert len(played.picks) * 5 == 125
    assert len(set(played.picks.tolist())) > 1


def test_what_pairing_saved_is_said_as_it_was_counted():
    assert saved_by_pairing(405, 1435, decided=True) == (
        "With the same seeds it took 405 samples. With independent seeds: 1,435, 3.5 times as many."
    )
    assert saved_by_pairing(405, 20_000, decided=False, common="prompts and seeds") == (
        "With the same prompts and seeds it took 405 samples. With independent seeds: more than 20,000, more than 49 "
        "times as many."
    )


@pytest.mark.long
def test_no_generator_copies_the_digits(digits):
    """Generated images lie about as far from their nearest real image as real images lie from each other."""
    real = digits.images.astype(np.float64)

    def distances(images):
        squares = np.sum(images**2, axis=1)[:, None] + np.sum(real**2, axis=1) - 2 * images @ real.T
        return np.sort(np.sqrt(squares.clip(min=0)), axis=1)

    among_real = np.median(distances(real[:200])[:, 1])
    for generator in digits.generators.values():
        assert np.median(distances(generator.sample(200, seed=4).astype(np.float64))[:, 0]) > 0.9 * among_real
