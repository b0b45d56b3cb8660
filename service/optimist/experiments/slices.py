"""The slices of the next picks: which indices of its generator's sequence each takes, with which prompts and seed.

An index means the same to every generator: a prompt, and where generators are paired a seed. No I/O.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from optimist.records import GeneratorState, Slice
from optimist_client.models import Experiment


def prompt_order(
    prompts: int, seed: int, start: int, size: int, *, passes: bool = False, block: int = 1000
) -> list[int]:
    """Indices of the prompts at positions `start` … `start + size − 1` of the experiment's endless order.

    The order consists of blocks. Each block repeats all prompts until it has `block` of them or more, and permutes them
    at random, seeded by (`seed`, number of the block). All generators get the same prompts at the same positions. If
    ten prompts were shuffled alone, every ten samples would have each prompt exactly once. The estimates assume
    independent draws, in which more pairs of samples share a prompt. With blocks of 1000 the difference is 1 %.
    passes: each block has every prompt once, for estimates of the score on a fixed list, which account for that.
    """
    length = prompts if passes else prompts * -(-block // prompts)
    chosen: list[int] = []
    while len(chosen) < size:
        number, offset = divmod(start + len(chosen), length)
        permutation = np.random.default_rng((seed, number)).permutation(length)[offset : offset + size - len(chosen)]
        chosen += (permutation % prompts).tolist()
    return chosen


@lru_cache(4096)
def first_seed(seed: int) -> int:
    """The seed of an experiment's first sample, 32 bits."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def next_slice(experiment: Experiment, generator: GeneratorState, size: int) -> Slice | None:
    """The slice of at most `size` indices that the generator's next pick takes; None where samples have no indices.

    Returned indices come first, so that all generators are compared on the same indices; they may be shorter.
    """
    if not experiment.is_indexed:
        return None
    if generator.returned:
        # The earliest index first: a comparison by index is only as long as the indices that all generators have.
        start, whole = generator.returned[0]
        size = min(size, whole)
        return _with_prompts(experiment, Slice(start, size, again=True, left=whole - size))
    # The next pick begins at a multiple of the batch size, whatever this one takes.
    left, end = -size % experiment.config.batch_size, experiment.end
    if end is not None:
        size = min(size, end - generator.handed)
        left = min(left, end - generator.handed - size)
    return _with_prompts(experiment, Slice(generator.handed, size, left=left))


def grown_size(
    batch_size: int,
    samples: int,
    open_rows: int,
    pace: float | None,
    lease: float,
    *,
    max_rows: int = 64,
    max_open_rows: int = 256,
) -> int:
    """The size of the next pick of a generator with so many samples: a multiple of `batch_size`, and at least that.

    It grows to 1 % of the samples, and to what takes a quarter of the lease. open_rows: samples of all open picks, up
    to `max_open_rows` with this pick, as a decision comes without those on their way. pace: seconds that the generator
    takes for a sample; None: it is not known, and the pick does not grow. lease: in seconds.
    """
    if pace is None:
        return batch_size
    size = min(0.01 * samples, max_rows, max_open_rows - open_rows, 0.25 * lease / max(pace, 1e-9))
    return max(batch_size, int(size // batch_size) * batch_size)


def slice_seed(experiment: Experiment, generator: GeneratorState, start: int) -> int:
    """The seed of the sample at index `start`, a number of 32 bits; the seed of each next sample is one higher."""
    first = first_seed(experiment.config.seed)
    if not experiment.is_paired:
        first += 2**22 * generator.ordinal  # up to 1024 generators share no seed in this many samples
    return (first + start) % 2**32


def pick_seed(seed: int, number: int) -> int:
    """The seed of a pick without indices: 32 bits, distinct for 2³² picks of an experiment, and reproducible."""
    return (first_seed(seed) + number) % 2**32


def _with_prompts(experiment: Experiment, part: Slice) -> Slice:
    config = experiment.config
    if config.prompts is None:
        return part
    are_known = any(config.known_prompts(metric) for metric in config.metrics.values())
    is_list = are_known and config.prompts_are == "list"
    order = prompt_order(len(config.prompts), config.seed, part.start, part.size, passes=is_list)
    prompts = [config.prompts[index] for index in order]
    clusters = [config.clusters_of_prompts[index] for index in order] if are_known else None
    return replace(part, prompts=prompts, prompt_indices=clusters)
