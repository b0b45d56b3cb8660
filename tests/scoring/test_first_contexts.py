"""Bandwidth and components of contexts, which a scorer fixes by the first ones of all generators."""

from __future__ import annotations

import itertools

import numpy as np

from optimist.estimation.stored import question_of, routed_prompt_of, unpack_kernels
from optimist.numerics.routing.features import contexts_to_fit, usual_distance
from optimist.numerics.routing.prompts import RoutedPrompt
from optimist.records import AskGroup, Batch, Contents, NewPick, Opening
from optimist_client import tensors
from tests.support.logs import entry
from tests.support.made import Made, scoring, settled, until

COLUMNS = 3
asks = itertools.count()


async def route(made: Made, generator: int, context: np.ndarray, score: float) -> int:
    """Opens a pick for a context, and tells one score for it; its number."""
    state, nonce = await made.store.state(made.name), f"nonce-{next(asks)}"
    prompt = RoutedPrompt(context.astype(np.float32), 0.5, "a prompt").pack()
    group = AskGroup(nonce, [NewPick(generator, "{}", nonce=nonce, context=prompt)])
    found = (await made.store.exchange(made.name, opening=Opening([group], 60.0, state.rounds, state.last))).opened
    [number] = found.numbers[nonce]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    good = entry(1, {"values": np.array([[score]])})
    await made.store.exchange(made.name, [Batch(number, nonce, Contents(good.digest, good.rows, good.body))])
    return number


async def test_the_first_contexts_of_all_generators_fix_the_bandwidth_and_a_retraction_fixes_it_anew(make):
    made: Made = await make(metric="mean", goal="route", context=COLUMNS, context_features=8)
    needed = contexts_to_fit("median", 2)
    told = np.random.default_rng(1).standard_normal((2, needed + 2, COLUMNS))
    told[:, 0] *= 30.0

    async def fitted() -> float:
        await until(lambda: made.fitted())
        found = tensors.decode(await made.fitted() or b"")
        assert found["context.directions"].shape == (COLUMNS, COLUMNS)
        return float(found["context.sigma"][0])

    numbers: dict[tuple[int, int], int] = {}
    async with scoring(made.store) as scorer:
        for generator, place in itertools.product(range(2), range(needed + 2)):
            if (generator, place) == (1, needed - 1):
                assert await made.fitted() is None
            numbers[generator, place] = await route(made, generator, told[generator, place], float(place))
        singles = told.astype(np.float32)
        assert await fitted() == usual_distance(np.concatenate(singles[:, :needed]))
        state = await settled(made)
        assert all(each.primary.estimate for each in state.generators)
        [known] = [
            each for each in scorer._experiments._known.values() if each.estimator_settings["contexts"] is not None
        ]
        question = question_of(made.experiment, None)
        closed = unpack_kernels(question, await made.fitted() or b"").contexts
        assert closed is not None
        assert known.estimator_settings["contexts"] is not None
        for one, other in zip(known.estimator_settings["contexts"].arrays, closed.made().arrays, strict=True):
            np.testing.assert_array_equal(one, other)
        await made.store.retract(made.name, pick=numbers[0, 0], fits_kernels=True)
        expected = usual_distance(np.concatenate([singles[0, 1 : needed + 1], singles[1, :needed]]))

        async def is_fixed_anew() -> bool:
            return await made.fitted() is not None and await fitted() == expected

        await until(is_fixed_anew)
        await settled(made)
    log = await made.store.read_log(made.name, 1, 0)
    assert [routed_prompt_of(each).prompt for each in log] == ["a prompt"] * (needed + 2)
