from collections.abc import Iterator

import numpy as np
import pytest
import torch

from optimist.estimation.question import declared_of
from optimist.metrics.implementations import Setting, make_metric
from optimist.metrics.pairs import ConditionedScore
from optimist.simulation.digits.generators import TEXTS, PromptIgnoring, classes

FOLLOWING = {"class-gaussian-0.3", "class-gaussian-0.7", "class-gmm-4", "class-kde-0.05", "class-kde-0.1"}
HEEDLESS = "heedless-vae-0.5"
SOME = [TEXTS[digit] for digit in (3, 1, 4, 1, 5, 9, 2, 6)]


def prompts_of(size, seed=0):
    return [TEXTS[digit] for digit in np.random.default_rng(seed).integers(10, size=size)]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(FOLLOWING))
def test_most_images_show_the_digit_that_was_asked_for(digits, name):
    prompts = prompts_of(1000)
    shown = digits.probabilities(digits.prompted[name].sample(prompts, seed=5)).argmax(axis=1)
    right = shown == classes(prompts)
    assert right.mean() > 0.95
    assert min(right[classes(prompts) == digit].mean() for digit in range(10)) > 0.85


@pytest.mark.long
def test_the_heedless_generator_ignores_its_prompts(digits):
    generator = digits.prompted[HEEDLESS]
    assert isinstance(generator, PromptIgnoring)
    np.testing.assert_array_equal(generator.sample(SOME, seed=1), generator.sample(SOME[::-1], seed=1))


@pytest.mark.long
def test_one_seed_gives_each_digit_its_own_noise(digits):
    """Two images of one pick must not differ from their digits' centres by the same noise."""
    generator = digits.prompted["class-gaussian-0.7"]
    coordinates = [
        np.linalg.solve(part.factors[0].T, part.basis @ (image - part.origin) - part.means[0])
        for part, image in zip(generator.generators[:2], generator.sample(TEXTS[:2], seed=1), strict=True)
    ]
    assert abs(np.corrcoef(*coordinates)[0, 1]) < 0.9


@pytest.mark.long
def test_embeddings_of_prompts(digits):
    embeddings = digits.embeddings(TEXTS)
    assert embeddings.shape == (10, 64)
    assert embeddings.dtype == np.float32
    threes = digits.features(digits.images[digits.labels == 3])
    np.testing.assert_allclose(embeddings[3], threes.mean(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(digits.embeddings(SOME), embeddings[classes(SOME)])
    assert digits.embeddings([]).shape == (0, 64)
    with pytest.raises(ValueError, match="a cat"):
        digits.embeddings([TEXTS[0], "a cat"])
    apart = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)[np.triu_indices(10, 1)]
    assert 5.0 < apart.min() < apart.max() < 11.0


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With other work on two cores, torch's threads wait for each other: 78 s where one took 5."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def samples(digits) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """4,000 pairs of each generator: features (4000, 64), embeddings (4000, 64)."""
    prompts = prompts_of(4000, seed=1)
    embeddings = torch.from_numpy(digits.embeddings(prompts))
    return {
        name: (torch.from_numpy(digits.features(generator.sample(prompts, seed=12345))), embeddings)
        for name, generator in digits.prompted.items()
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "ranks"),
    [
        ("conditional-vendi", ["class-kde-0.1", "class-kde-0.05"]),
        ("information-vendi", ["class-gaussian-0.3", "class-kde-0.05"]),
    ],
)
def test_the_contest_is_fair_but_decidable(one_thread, samples, metric, ranks):
    """The winner leads by more than four standard errors at 1,000 samples each, and by none that 10 samples show."""
    asked = declared_of(metric, kernel={"sigma": 5.0, "features": 256}, prompt_kernel={"sigma": 2.5})
    score = make_metric(asked, Setting({"features": 64, "prompts": 64}))
    assert isinstance(score, ConditionedScore)

    def plug_in(name, rows=slice(None)):
        statistic = score.statistic()
        statistic.update(*(part[rows] for part in samples[name]))
        return score.plug_in(statistic)

    truth = {name: plug_in(name) for name in samples}
    order = sorted(truth, key=truth.__getitem__, reverse=True)
    assert order[:2] == ranks
    if metric == "information-vendi":
        assert order[-1] == HEEDLESS
    spread = {
        (name, n): np.std([plug_in(name, slice(n * i, n * i + n)) for i in range(20)], ddof=1)
        for name in ranks
        for n in (10, 200)
    }
    gap = truth[ranks[0]] - truth[ranks[1]]
    assert gap > 4 * np.hypot(spread[ranks[0], 200], spread[ranks[1], 200]) / np.sqrt(5)
    assert gap < 2 * np.hypot(spread[ranks[0], 10], spread[ranks[1], 10])
