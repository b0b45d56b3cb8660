"""All Prometheus metrics of a process. docs/deploy.md says how to combine the metrics of several processes.

No label names an experiment, a generator, a namespace or a key: tenants cannot observe each other, and the number of
series does not grow with their number.
"""

from __future__ import annotations

from functools import partial

from prometheus_client import Counter, Histogram
from prometheus_client import Gauge as AnyGauge

from optimist.insight import shared
from optimist.records import Settled
from optimist_client.models import AskReply

shared.join()

Gauge = partial(AnyGauge, multiprocess_mode="sum")
"""A gauge that is 0 in the processes of a service that do not set it."""
LatestGauge = partial(AnyGauge, multiprocess_mode="mostrecent")
"""A gauge that each process may set anew."""


# Of the API

REQUESTS = Counter(
    "optimist_requests", "Requests answered, by route as declared in the API.", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "optimist_request_seconds", "Duration of requests in seconds, including waiting for estimates.", ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
)  # fmt: skip
ASKS = Counter("optimist_asks", "Asks answered, by whether they returned picks.", ["outcome"])
ASK_WAITS = Counter(
    "optimist_ask_waits",
    "Asks that waited, or got fewer picks than they asked for, by [reason](waits.md).",
    ["reason"],
)
PICKS = Counter(
    "optimist_picks",
    "Picks given to workers, including repeated ones; stale: chosen without waiting for current estimates.",
    ["stale"],
)
TELLS = Counter(
    "optimist_tells", "Batches accepted, each counted once, by kind: for a pick, or appended without one.", ["kind"]
)
SAMPLES = Counter("optimist_samples", "Samples in accepted batches.")
LATE = Counter("optimist_tells_late", "Batches accepted after the lease of their pick had expired.")
DUPLICATES = Counter("optimist_tells_duplicate", "Repeated batches, which were accepted before and not counted again.")
REFUSED = Counter("optimist_refused", "Requests refused, by the last part of the problem's type.", ["reason"])
MESSAGES = Counter(
    "optimist_messages",
    "Attempts to send a message to a webhook, by outcome: sent, waits for the next one, or failed.",
    ["outcome"],
)
BODY_BYTES = Gauge("optimist_body_bytes", "Bytes of request bodies in memory.")
REDIS_SECONDS = LatestGauge("optimist_redis_latency_seconds", "Latency of the last ping of Redis in seconds.")
REDIS_BYTES = LatestGauge("optimist_redis_memory_bytes", "Memory used by Redis in bytes; 0: unknown.")
REDIS_LIMIT_BYTES = LatestGauge("optimist_redis_memory_limit_bytes", "Redis' maxmemory in bytes; 0: no limit.")
REDIS_UNSERVED = LatestGauge(
    "optimist_redis_unserved_slots", "Slots of a Redis Cluster that no node accepted writes for when last probed."
)

SCORER_RESTARTS = Counter(
    "optimist_scorer_restarts", "Number of times that the scorer of this service died and was restarted."
)
API_RESTARTS = Counter(
    "optimist_api_restarts", "Number of times that an API process of this service died and was restarted."
)

# Of the scorer

SCORING_SECONDS = Histogram(
    "optimist_scoring_seconds",
    "Duration of estimates in seconds, by kind: computed from all rows, or from sums over them; mixtures; models.",
    ["metric", "kind"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0),
)
SNAPSHOTS = Counter("optimist_snapshots", "Snapshots stored.")
TAKEOVERS = Counter("optimist_claim_takeovers", "Generators taken over from a scorer that stopped responding.")
CLAIMS_LOST = Counter("optimist_claims_lost", "Generators that another scorer took over from this one.")
SCORING_FAILURES = Counter(
    "optimist_scoring_failures", "Number of times that scoring a generator failed or was interrupted."
)
QUARANTINED = Counter("optimist_quarantined", "Batches found unreadable and quarantined.")
HELD = Gauge("optimist_generators_held", "Generators that this scorer has claimed.")
WARM_BYTES = Gauge("optimist_warm_bytes", "Bytes of cached statistics, feature maps and references.")
LAST_SWEEP = Gauge("optimist_sweep_timestamp_seconds", "Unix time of the last check of all experiments; 0: never.")

# Of all experiments, as of the scorer's last check: every scorer reports the same

EXPERIMENTS = Gauge("optimist_experiments", "Experiments.")
GENERATORS = Gauge("optimist_generators", "Generators that are not retired.")
OVERDUE = Gauge("optimist_estimates_overdue", "Generators whose estimate is due but not computed yet.")
WATCHED_OVERDUE = Gauge("optimist_watched_overdue", "Estimates by watched metrics that are due but not computed yet.")
WATCHED_SCORING_ERRORS = Gauge(
    "optimist_watched_with_scoring_errors", "Generators that cannot be scored by a watched metric, for each."
)
STALENESS = Gauge("optimist_staleness_seconds", "Seconds for which the longest-waiting estimate has been due.")
LOG_BYTES = Gauge("optimist_log_bytes", "Bytes of batches in the logs after the last snapshots.")
LOG_ENTRIES = Gauge("optimist_log_entries", "Batches in the logs after the last snapshots.")
SNAPSHOT_AGE = Gauge(
    "optimist_snapshot_age_seconds",
    "Seconds for which the longest-waiting snapshot has been due.",
)
SCORING_ERRORS = Gauge("optimist_generators_with_scoring_errors", "Generators that cannot be scored.")
QUARANTINED_ENTRIES = Gauge(
    "optimist_quarantined_entries", "Unreadable batches that are quarantined, of all experiments."
)

_WITH, _WITHOUT = ASKS.labels("picks"), ASKS.labels("none")
_FRESH, _STALE = PICKS.labels("false"), PICKS.labels("true")
_FOR_PICK, _APPENDED = TELLS.labels("pick"), TELLS.labels("append")


def count_ask(reply: AskReply) -> None:
    """Count an ask, and the picks it got."""
    (_WITH if reply.picks else _WITHOUT).inc()
    if reply.waited_for is not None:
        ASK_WAITS.labels(reply.waited_for.value).inc()
    for pick in reply.picks:
        (_STALE if pick.stale else _FRESH).inc()


def count_tell(settled: Settled) -> None:
    """Count an accepted batch; a repeat counts only as a duplicate."""
    if settled.duplicate:
        DUPLICATES.inc()
        return
    (_FOR_PICK if settled.pick else _APPENDED).inc()
    SAMPLES.inc(settled.rows)
    if settled.late:
        LATE.inc()
