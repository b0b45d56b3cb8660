"""The SDK against the real service: the loop, open picks, lost replies, and batches of one embedding alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from optimist_client import AsyncOptimist, ConflictError, FixError, NotFoundError, Optimist
from tests.support.keys import new_key
from tests.support.processes import Service, append_batch, losing_replies


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


async def test_pickled_experiments_ask_and_pickled_picks_are_told(client: Optimist, name: str, service: Service):
    made = client.create_experiment(name, ["a", "b"], metric="mean")
    read, experiment, pick = pickle.loads(pickle.dumps((client, made, made.ask())))
    with read:
        assert pick.tell(np.ones(pick.size)).pick == pick.number
        assert experiment.ask().number != pick.number
    async with AsyncOptimist(service.url) as asynchronous:
        opened = await asynchronous.experiment(name)
        pickled = pickle.dumps((asynchronous, opened, await opened.ask()))
    read, experiment, pick = pickle.loads(pickled)
    async with read:
        assert (await pick.tell(np.ones(pick.size))).pick == pick.number
        assert (await experiment.ask()).number != pick.number


def test_how_many_are_asked_together_is_said(client: Optimist, name: str, reference):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference)
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


@pytest.mark.parametrize("wrong", [np.ones((5, 4), complex), np.full((5, 4), "1")])
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


BATCH = np.ones((5, 4))


def test_a_batch_of_another_embedding_is_refused_and_nothing_is_stored(
    client: Optimist, service: Service, name: str, reference
):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, embedding="dinov2-base")
    assert client.experiment(name).info.config.embedding == "dinov2-base"
    pick = experiment.ask()
    with pytest.raises(FixError, match="takes batches of embedding 'dinov2-base'; got one of 'swav-resnet50'"):
        pick.tell(BATCH, embedding="swav-resnet50")
    with pytest.raises(FixError, match="'dinov2-base'; none was named"):
        pick.tell(BATCH)
    assert experiment.report().samples == 0
    assert pick.tell(BATCH, embedding="dinov2-base").samples == 5
    with pytest.raises(FixError, match="swav-resnet50"):
        pick.tell(BATCH, embedding="swav-resnet50")
    assert pick.tell(BATCH, embedding="dinov2-base").duplicate
    # Batches without a pick are checked as well.
    for params, status in (({}, 422), ({"embedding": "clip"}, 422), ({"embedding": "dinov2-base"}, 200)):
        assert append_batch(service.url, name, "a", {"features": BATCH}, **params).status_code == status
    unnamed = client.create_experiment(f"{name}-unnamed", ["a", "b"], reference=reference).ask()
    with pytest.raises(FixError, match="names no embedding; got one of 'dinov2-base'"):
        unnamed.tell(BATCH, embedding="dinov2-base")
    assert unnamed.tell(BATCH).samples == 5


def test_a_reference_of_another_embedding_is_refused(client: Optimist, name: str, reference):
    mean, covariance = reference[0] + 0.5, reference[1]
    uploaded = client.create_reference(f"{name}-real", mean=mean, covariance=covariance, embedding="dinov2-base")
    assert uploaded.embedding == "dinov2-base"
    with pytest.raises(ConflictError, match="of embedding 'dinov2-base', not of 'clip'"):
        client.create_experiment(name, ["a", "b"], reference=uploaded.name, embedding="clip")
    with pytest.raises(ConflictError, match="of embedding 'dinov2-base', not of 'clip'"):
        client.create_reference(uploaded.name, mean=mean, covariance=covariance, embedding="clip")
    assert name not in client.experiments()
    for embedding in ("dinov2-base", None):
        assert client.create_reference(uploaded.name, mean=mean, covariance=covariance, embedding=embedding) == uploaded
    made = client.create_experiment(name, ["a", "b"], reference=(mean, covariance), embedding="dinov2-base")
    own = made.info.config.metric.setting("reference")
    assert next(known for known in client.references() if known.name == own).embedding == "dinov2-base"


def test_references_are_deleted_once_nothing_uses_them(service: Service, name: str):
    with Optimist(service.url, api_key=new_key(service.directory, "admin", name)) as client:
        for which in ("used", "spare"):
            client.create_reference(which, mean=np.zeros(2), covariance=np.eye(2))
        client.create_experiment(name, ["a", "b"], reference="used")
        assert [known.name for known in client.references(unused=True)] == ["spare"]
        with pytest.raises(ConflictError, match=f"experiment '{name}' uses it"):
            client.delete_reference("used")
        client.delete_reference("spare")
        with pytest.raises(NotFoundError, match="no reference is called 'spare'"):
            client.delete_reference("spare")
        client.delete_experiment(name)
        client.delete_reference("used")
        assert client.references() == []
