"""The model that answers asks: the same predictions as the regressions it is made of, and no others as bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimist.references.distances import usual_distance
from optimist.routing.answers.features import Components, ContextMap, ContextSettings, contexts_to_fit
from optimist.routing.answers.model import RouteModel
from optimist.routing.answers.ridge import PublishedRidge, Regressions, Sums
from optimist_client import tensors

WIDTH, LINEAR, GENERATORS, COLUMNS = 32, 4, 3, 6


def moments(contexts: ContextMap) -> list[Sums]:
    rng = np.random.default_rng(1)
    found: list[Sums] = []
    for place in range(GENERATORS):
        # One of them has a single sample.
        features = contexts(rng.standard_normal((300 * place + 1, COLUMNS)))
        scores = features @ rng.standard_normal(WIDTH) + 0.3 * rng.standard_normal(len(features)) + place
        found.append(Sums.from_rows(features, scores))
    return found


def made(kind: type[Regressions] | type[PublishedRidge]) -> tuple[RouteModel, Regressions | PublishedRidge, ContextMap]:
    components = Components.from_contexts(np.random.default_rng(3).standard_normal((64, COLUMNS)), limit=LINEAR)
    contexts = ContextMap.drawn(COLUMNS, WIDTH - LINEAR, 2.0, components=components)
    told = moments(contexts)
    found = kind.from_moments(told, LINEAR)
    single = np.array([1.0, 2.0, 3.0])
    return (
        RouteModel.from_regressions((0, 3, 4), [each.samples for each in told], contexts, found, single),
        found,
        contexts,
    )


@pytest.mark.parametrize("kind", [Regressions, PublishedRidge])
def test_predictions_are_those_of_the_regressions_to_the_rounding_of_singles(
    kind: type[Regressions] | type[PublishedRidge],
):
    model, found, contexts = made(kind)
    again = RouteModel.unpack(model.pack())
    assert (again.generators, again.samples) == ((0, 3, 4), (1, 301, 601))
    np.testing.assert_allclose(again.singles, [1.0, 2.0, 3.0], rtol=1e-6)
    rows = np.random.default_rng(2).standard_normal((7, COLUMNS)).astype(np.float32)
    means, widths = found.predict(contexts(rows))
    for shown, expected in zip(again.predict(rows), (means, widths), strict=True):
        assert shown.dtype == np.float64
        np.testing.assert_allclose(shown, expected, rtol=2e-6, atol=2e-6)
    for row, mean in zip(rows, means, strict=True):
        np.testing.assert_allclose(again.predict(row[None])[0][0], mean, rtol=2e-6, atol=2e-6)


def test_other_bytes_are_no_model():
    model, _, _ = made(Regressions)
    body = model.pack()
    arrays = tensors.decode(body)
    changes = {
        "format 2": {"format": np.array([2.0])},
        "expected finite numbers": {"weights": np.full((GENERATORS, WIDTH), np.nan, dtype=np.float32)},
        "expected shape": {"factors": arrays["factors"][:, :, :-1]},
        "expected float32": {"scales": arrays["scales"].astype(np.float64)},
        "the samples of 2": {"samples": np.array([1.0, 2.0])},
    }
    for message, change in changes.items():
        with pytest.raises(ValueError, match="found" if message == "format 2" else message):
            RouteModel.unpack(tensors.encode({**arrays, **change}))
    for other in (b"", b"{}", body[:100], body[:-1], tensors.encode({"weights": arrays["weights"]})):
        with pytest.raises(ValueError, match="expected"):
            RouteModel.unpack(other)


def test_numbers_beyond_singles_make_no_model():
    model, found, contexts = made(Regressions)
    assert isinstance(found, Regressions)
    huge = replace(found, weights=found.weights * 1e39)
    with pytest.raises(ValueError, match="expected finite numbers"):
        RouteModel.from_regressions(model.generators, model.samples, contexts, huge, np.zeros(GENERATORS))


def test_a_bandwidth_is_found_whatever_the_first_contexts_are():
    assert (contexts_to_fit("median", 2), contexts_to_fit("median", 40), contexts_to_fit(0.5, 2)) == (32, 3, 0)
    assert usual_distance(np.ones((6, 3))) == 1.0
    assert usual_distance(np.zeros((0, 3))) == 1.0
    # Most pairs are equal: the mean of the distances that there are.
    few = np.zeros((10, 1))
    few[:2] = [[3.0], [-3.0]]
    assert usual_distance(few) == pytest.approx((16 * 3.0 + 6.0) / 17)
    settings = ContextSettings(2, 8)
    with pytest.raises(ValueError, match="not fixed yet"):
        settings.made()
    fitted = settings.fitted([np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.1]])])
    assert fitted.bandwidth == pytest.approx(np.hypot(3.0, 3.9))
    assert replace(settings, bandwidth=2.0).fitted([]).bandwidth == 2.0
    assert (fitted.made().linear, fitted.made().width) == (2, 10)


def test_scores_far_from_0_keep_their_differences() -> None:
    rng = np.random.default_rng(2)
    contexts = rng.standard_normal((300, 3)).astype(np.float32)
    map_ = ContextMap.drawn(3, 16, 2.0)
    scores = [1e6 + np.sign(contexts[:, 0]) * sign + rng.standard_normal(300) for sign in (1.0, -1.0)]
    sums = [Sums.from_rows(map_(contexts), each) for each in scores]
    found = Regressions.from_moments(sums)
    model = RouteModel.from_regressions((0, 1), (300, 300), map_, found, np.array([each.mean for each in sums]))
    model = RouteModel.unpack(model.pack())
    means, widths = model.predict(contexts)
    np.testing.assert_allclose(means, found.predict(map_(contexts))[0], rtol=0.0, atol=1e-5)
    np.testing.assert_allclose(model.singles, [each.mean() for each in scores], rtol=0.0, atol=1e-5)
    assert np.mean((means[:, 0] > means[:, 1]) == (contexts[:, 0] > 0.0)) > 0.9
    assert np.isfinite(widths).all()


@pytest.mark.parametrize("size", [1e30, 3e38])
def test_contexts_far_beyond_the_bandwidth_have_predictions(size: float) -> None:
    map_ = ContextMap.drawn(3, 16, 1e-30)
    sums = [Sums.from_rows(map_(np.eye(3)), np.array([0.0, 1.0, 1.0]))]
    model = RouteModel.from_regressions((0,), (3,), map_, Regressions.from_moments(sums), np.zeros(1))
    means, widths = model.predict(np.full((1, 3), size, dtype=np.float32))
    assert np.isfinite(means).all()
    assert np.isfinite(widths).all()


def test_one_context_of_a_wrong_size_does_not_set_the_bandwidth() -> None:
    contexts = np.random.default_rng(0).standard_normal((50, 3))
    usual = usual_distance(contexts)
    assert usual_distance(np.vstack([contexts, np.full((1, 3), 1e9)])) == pytest.approx(usual, rel=0.1)
    assert usual_distance(1e-44 * contexts) == 1e-30  # float32 cannot hold a frequency of 1e44
