"""The order in which every generator goes through an experiment's prompts. Free of torch."""

from __future__ import annotations

import numpy as np

BLOCK = 1000
"""Positions at least that are shuffled together.

Were a list of ten shuffled alone again and again, every ten samples would be of one prompt each, with fewer pairs of a
prompt than the independent draws that the estimates take them for; of a thousand the difference is 1 %.
"""


def prompt_order(prompts: int, seed: int, start: int, size: int) -> list[int]:
    """Which of `prompts` stand at positions `start` … `start + size − 1` of the experiment's endless order.

    It is made of blocks, each a random permutation of all prompts, as often as makes `BLOCK` of them, drawn from
    (`seed`, the block's number): samples at the same positions are of the same prompts whatever generator made them.
    """
    length = prompts * -(-BLOCK // prompts)
    chosen: list[int] = []
    while len(chosen) < size:
        block, offset = divmod(start + len(chosen), length)
        permutation = np.random.default_rng((seed, block)).permutation(length)[offset : offset + size - len(chosen)]
        chosen += (permutation % prompts).tolist()
    return chosen
