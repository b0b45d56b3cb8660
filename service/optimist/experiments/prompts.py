"""What indices of samples mean to every generator: a prompt, and a seed. Free of torch and of the store."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

BLOCK = 1000
"""The smallest number of positions that are shuffled together.

If ten prompts were shuffled alone, every ten samples would have each prompt exactly once. The estimates assume
independent draws, in which more pairs of samples share a prompt. With blocks of 1000 the difference is 1 %.
"""


def prompt_order(prompts: int, seed: int, start: int, size: int, *, passes: bool = False) -> list[int]:
    """Indices of the prompts at positions `start` … `start + size − 1` of the experiment's endless order.

    The order consists of blocks. Each block repeats all prompts until it has `BLOCK` of them or more, and permutes them
    at random, seeded by (`seed`, number of the block). All generators get the same prompts at the same positions.
    passes: each block has every prompt once, for estimates of the score on a fixed list, which account for that.
    """
    length = prompts if passes else prompts * -(-BLOCK // prompts)
    chosen: list[int] = []
    while len(chosen) < size:
        block, offset = divmod(start + len(chosen), length)
        permutation = np.random.default_rng((seed, block)).permutation(length)[offset : offset + size - len(chosen)]
        chosen += (permutation % prompts).tolist()
    return chosen


@lru_cache(4096)
def first_seed(seed: int) -> int:
    """The seed of an experiment's first sample, 32 bits."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
