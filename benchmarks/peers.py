"""Ask and tell of comparable services, for `rounds.py`: rounds per second of one worker."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

GENERATORS = ["a", "b", "c", "d", "e"]


def optuna_sqlite(rounds: int) -> float:
    """Optuna's RDBStorage on a SQLite file."""
    import optuna

    with tempfile.TemporaryDirectory(prefix="peers-") as directory:
        return _optuna(optuna.storages.RDBStorage(f"sqlite:///{directory}/study.db"), rounds)


def optuna_redis(rounds: int) -> float:
    """Optuna's JournalStorage on a Redis that syncs every write, like that of the service."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalRedisBackend

    from optimist.store import start_embedded

    with tempfile.TemporaryDirectory(prefix="peers-") as directory, start_embedded(Path(directory)) as redis:
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return _optuna(JournalStorage(JournalRedisBackend(redis.url)), rounds)


def vizier(rounds: int) -> float:
    """Vizier's service with the SQLite datastore and the random designer, its fastest one."""
    from vizier.service import clients, servers
    from vizier.service import pyvizier as vz

    with tempfile.TemporaryDirectory(prefix="peers-") as directory:
        server = servers.DefaultVizierServer(database_url=f"sqlite:///{directory}/study.db")
        clients.environment_variables.server_endpoint = server.endpoint
        problem = vz.ProblemStatement()
        problem.search_space.root.add_categorical_param("generator", GENERATORS)
        problem.metric_information.append(vz.MetricInformation("score", goal=vz.ObjectiveMetricGoal.MINIMIZE))
        config = vz.StudyConfig.from_problem(problem)
        config.algorithm = "RANDOM_SEARCH"
        study = clients.Study.from_study_config(config, owner="benchmark", study_id="rounds")

        def action() -> None:
            (trial,) = study.suggest(count=1)
            trial.complete(vz.Measurement(metrics={"score": 1.0}))

        return _rate(action, rounds)


def _optuna(storage: optuna.storages.BaseStorage, rounds: int) -> float:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))

    def action() -> None:
        trial = study.ask()
        trial.suggest_categorical("generator", GENERATORS)
        study.tell(trial, 1.0)

    return _rate(action, rounds)


def _rate(action: Callable[[], object], rounds: int) -> float:
    """Rounds per second, without the first round, which opens connections."""
    action()
    start = time.perf_counter()
    for _ in range(rounds):
        action()
    return rounds / (time.perf_counter() - start)


PEERS: dict[str, Callable[[int], float]] = {
    "Optuna, SQLite": optuna_sqlite,
    "Optuna, Redis journal": optuna_redis,
    "Vizier, SQLite": vizier,
}
"""By name, a function from the number of rounds to rounds per second; it raises ImportError if the peer is missing."""
