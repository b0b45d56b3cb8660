"""The SDK against the real service: the loop, open picks, lost replies, and the same numbers as in memory."""

from __future__ import annotations

import numpy as np
import pytest

from optimist_client import FixError, Optimist
from tests.support.processes import Service, losing_replies


def samples(generator: str, size: int, seed: int, d: int = 4) -> np.ndarray:
    """Real draws: `b` is the reference's own distribution, the others are shifted away from it."""
    shift = {"a": 1.0, "b": 0.0, "c": 2.0}[generator]
    return np.random.default_rng(seed).standard_normal((size, d)) + shift


def test_the_loop_names_the_best_generator(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b", "c"], reference=reference, budget=5_000)
    for pick in experiment.picks():
        pick.tell(samples(pick.generator, pick.size, pick.seed))
    report = experiment.report()
    assert report.state == "decided"
    assert report.decision.best == "b"
    assert report.decision.confidence > 0.95
    assert report.open_picks == 0
    assert report.samples == sum(row.samples for row in report.standings) < 5_000
    assert experiment.url.endswith(f":{experiment._transport._http.base_url.port}/#/e/{name}")
    winner = next(row for row in report.standings if row.generator == "b")
    assert winner.lower <= 0.5
    assert report.optimal_pick_ratio == pytest.approx(winner.batches / report.rounds)
    assert report.uniform_samples is None or report.uniform_samples > report.samples
    assert report.regret.average == pytest.approx(report.regret.total / report.rounds)
    assert experiment.ask() is None


def test_many_picks_are_asked_and_told_together(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b", "c"], reference=reference, policy="uniform", stop=False)
    picks = experiment.ask_all(count=90)
    assert sorted(pick.number for pick in picks) == list(range(1, 91))
    experiment.tell_all([(pick, samples(pick.generator, pick.size, pick.seed)) for pick in picks])
    assert experiment.report().samples == 450
    assert experiment.tell_all([]) == []
    for asked in ({}, {"contexts": np.zeros((2, 3)), "count": 2}):
        with pytest.raises(FixError, match=r"expected contexts with the goal|has the goal"):
            experiment.ask_all(**asked)
    with pytest.raises(FixError, match="count: expected at most 250"):
        experiment.ask_all(count=251)


def test_the_budget_is_never_exceeded(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, budget=23, stop=False)
    sizes = []
    for pick in experiment.picks():
        pick.tell(samples(pick.generator, pick.size, pick.seed))
        sizes.append(pick.size)
    assert sizes == [5, 5, 5, 5, 3]
    assert experiment.report().state == "out of budget"


def test_a_broken_loop_gives_its_picks_back(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference)
    picks = experiment.picks()
    next(picks).tell(np.zeros((5, 4)))
    picks.close()
    assert experiment.report().open_picks == 0

    def breaks():
        for pick in experiment.picks():
            raise RuntimeError(pick.generator)

    with pytest.raises(RuntimeError):
        breaks()
    assert experiment.report().open_picks == 0


def test_a_loop_through_lost_replies_counts_every_batch_once(service: Service, client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, stop=False, budget=150)
    told = 0
    with losing_replies(service.url, every=3) as url, Optimist([url, url]) as unlucky:
        for pick in unlucky.experiment(name).picks():
            told += pick.tell(samples(pick.generator, pick.size, pick.seed)).pick > 0
    report = experiment.report()
    assert (report.samples, report.rounds, report.open_picks) == (150, 30, 0)
    assert told == 30


def test_tensors_of_torch_are_taken_as_they_are(client: Optimist, name: str, reference):
    torch = pytest.importorskip("torch")
    features = torch.from_numpy(samples("a", 5, 0)).to(torch.bfloat16)
    experiment = client.create_experiment(name, ["a", "b"], reference=reference)
    first, second = experiment.ask(), experiment.ask()
    first.tell(features)
    assert first.tell(features.float().numpy()).duplicate
    second.tell({"features": torch.ones(5, 4, dtype=torch.float64, requires_grad=True)}, ids=range(5))
    assert second.tell({"features": np.ones((5, 4)), "ids": ["0", "1", "2", "3", "4"]}).duplicate
    real = torch.from_numpy(samples("b", 50, 1))
    halves = client.create_reference(f"{name}-halves", features=real.to(torch.bfloat16).requires_grad_())
    same = client.create_reference(f"{name}-same", features=real.to(torch.bfloat16).double().numpy())
    assert halves.digest == same.digest


@pytest.mark.parametrize("wrong", [np.ones((5, 4), complex), np.full((5, 4), "1"), np.ones((5, 4), bool)])
def test_what_is_no_array_of_real_numbers_is_not_sent(client: Optimist, name: str, reference, wrong: np.ndarray):
    pick = client.create_experiment(name, ["a", "b"], reference=reference).ask()
    with pytest.raises(ValueError, match="features: expected an array of real numbers"):
        pick.tell(wrong)
    with pytest.raises(
        ValueError, match=r"at most 1024 bytes each, got 1025 in row 1\. .* keep images .* tell .* URLs"
    ):
        pick.tell(np.ones((5, 4)), ids=["0", "x" * 1025, *"234"])
    for ids in (["a"], ["a\0", *"1234"]):
        with pytest.raises(ValueError, match="expected"):
            pick.tell(np.ones((5, 4)), ids=ids)
    with pytest.raises(ValueError, match="features: expected an array of real numbers"):
        client.create_reference(name, features=wrong)
    assert pick.tell(np.ones((5, 4))).samples == 5


def test_the_repr_says_name_state_and_leader_and_never_raises(service: Service, name: str, reference):
    with Optimist(service.url) as client:
        experiment = client.create_experiment(name, ["a", "b"], reference=reference, budget=200)
        assert repr(experiment) == f"<Experiment {name!r}: warming up, leader none yet>"
        experiment.run({g: lambda size, seed, g=g: samples(g, size, seed) for g in "ab"})
        said = repr(client.experiment(name))
        assert said.startswith(f"<Experiment {name!r}: decided, leader b 9")
    assert repr(experiment) == said, "the client is closed: what it saw last"
    with Optimist("http://127.0.0.1:9") as nobody:
        assert repr(type(experiment)(nobody._transport, experiment.info)) == f"<Experiment {name!r}>"
