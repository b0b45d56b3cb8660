"""PAK-UCB, RFF-UCB and PromptWise against reference numbers."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.routing.answers.features import ContextMap
from optimist.routing.answers.policy import RoutePolicy, reservation_index, values_of_tries
from optimist.routing.answers.ridge import KernelRidge, PublishedRidge, Sums
from tests.support.places import DATA

PAK = np.load(DATA / "pak_ucb.npz")
WISE = np.load(DATA / "promptwise.npz")


@pytest.mark.parametrize(("script_start", "suffix"), [(False, ""), (True, "_script_start")])
def test_pak_ucb_chooses_as_published(script_start: bool, suffix: str):
    contexts, rewards = PAK["contexts"], PAK["rewards"]
    arms = [KernelRidge(float(PAK["bandwidth"]), float(PAK["alpha"]), script_start=script_start) for _ in rewards]
    policy = RoutePolicy("pak-ucb", rounds=len(contexts))
    for t, context in enumerate(contexts):
        new = [place for place, arm in enumerate(arms) if not arm.samples]
        known = [(np.nan, np.nan) if not arm.samples else arm.predict(context) for arm in arms]
        means, widths = np.array(known).T
        chosen = new[0] if new else policy.pick(policy.chances(means, widths), t)
        assert chosen == PAK[f"arms{suffix}"][t]
        if not new:
            np.testing.assert_allclose(means, PAK[f"mean{suffix}"][t], rtol=1e-9)
            np.testing.assert_allclose(widths, PAK[f"sd{suffix}"][t], rtol=1e-9)
        arms[chosen].add(context, rewards[chosen, t])


def test_rff_ucb_chooses_as_published():
    contexts, rewards = PAK["contexts"], PAK["rewards"]
    features = ContextMap(PAK["rff_W"])(contexts)
    np.testing.assert_allclose(features, PAK["rff_features"], rtol=1e-9, atol=1e-12)
    moments, policy = [Sums.none(features.shape[1]) for _ in rewards], RoutePolicy("rff-ucb")
    for t, phi in enumerate(features):
        new = [place for place, each in enumerate(moments) if not each.samples]
        means, widths = (
            part[0] for part in PublishedRidge.from_moments(moments, ridge=float(PAK["alpha"])).predict(phi[None])
        )
        chosen = new[0] if new else policy.pick(policy.chances(means, widths), t)
        assert chosen == PAK["rff_arms"][t]
        known = ~np.isnan(PAK["rff_mean"][t])
        np.testing.assert_allclose(means[known], PAK["rff_mean"][t][known], rtol=1e-9)
        np.testing.assert_allclose(widths[known], PAK["rff_sd"][t][known], rtol=1e-9)
        moments[chosen] += Sums.from_rows(phi[None], rewards[chosen, t : t + 1])


def test_promptwise_calls_the_generator_of_the_best_index():
    price, tries = float(WISE["cost_weight"]), int(WISE["tries"])
    index = reservation_index(WISE["success"], WISE["cost"], price)
    np.testing.assert_allclose(index, WISE["index"], rtol=1e-12)
    arm = int(WISE["arm"])
    assert int(np.argmax(index)) == arm
    values = values_of_tries(WISE["success"], WISE["cost"], price, tries)
    assert values[arm] == pytest.approx(float(WISE["value_of_up_to_tries"]), rel=1e-9)
