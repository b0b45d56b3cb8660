"""Every metric of the service, of this process; docs/metrics-prometheus.md says how they add up over several.

No label names an experiment, a generator, a namespace or a key: what one tenant does is none of another's business, and
the number of series stays the same however many there are.
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from optimist.insight.relay import Relay

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_SCORING_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)

# Of the API

REQUESTS = Counter(
    "optimist_requests", "Requests answered, by route as the API declares it.", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "optimist_request_seconds", "Seconds that requests took, waiting for estimates included.", ["route"],
    buckets=_REQUEST_BUCKETS,
)  # fmt: skip
ASKS = Counter("optimist_asks", "Asks answered: with picks, or with none.", ["outcome"])
PICKS = Counter(
    "optimist_picks", "Picks given to workers, those they got back included; stale: not waited for.", ["stale"]
)
TELLS = Counter("optimist_tells", "Batches accepted, each once: for a pick, or without one.", ["kind"])
SAMPLES = Counter("optimist_samples", "Samples in accepted batches.")
LATE = Counter("optimist_tells_late", "Batches accepted after the lease of their pick had run out.")
DUPLICATES = Counter("optimist_tells_duplicate", "Batches that had been accepted before and were not counted again.")
REFUSED = Counter("optimist_refused", "Requests refused, by the last part of the problem's type.", ["reason"])
BODY_BYTES = Gauge("optimist_body_bytes", "Bytes of request bodies in memory.")
REDIS_SECONDS = Gauge("optimist_redis_latency_seconds", "Seconds that a ping of Redis took when last asked.")
REDIS_BYTES = Gauge("optimist_redis_memory_bytes", "Bytes that Redis holds, where it says so.")
REDIS_LIMIT_BYTES = Gauge("optimist_redis_memory_limit_bytes", "The most it may hold; 0: it has no limit of its own.")

SCORER = CollectorRegistry()
"""What a scorer counts in its own process."""
RELAY = Relay(SCORER)
"""The same as this process shows it: of the scorer that it is, or of the one that it has started."""
SCORER_RESTARTS = Counter(
    "optimist_scorer_restarts", "Times that the scorer of this service died and was started again."
)

# Of the scorer

SCORING_SECONDS = Histogram(
    "optimist_scoring_seconds",
    "Seconds that estimates took, by how they were made: of all rows, or of sums over them.",
    ["metric", "route"],
    buckets=_SCORING_BUCKETS,
    registry=SCORER,
)
SNAPSHOTS = Counter("optimist_snapshots", "Snapshots stored.", registry=SCORER)
TAKEOVERS = Counter(
    "optimist_claim_takeovers", "Generators taken over from a scorer that showed no life.", registry=SCORER
)
CLAIMS_LOST = Counter(
    "optimist_claims_lost", "Generators that another scorer took over from this one.", registry=SCORER
)
SCORING_FAILURES = Counter(
    "optimist_scoring_failures", "Times that scoring a generator failed or was cut short.", registry=SCORER
)
SET_ASIDE = Counter("optimist_set_aside", "Batches found unreadable and set aside.", registry=SCORER)
HELD = Gauge("optimist_generators_held", "Generators that this scorer has claimed.", registry=SCORER)
WARM_BYTES = Gauge(
    "optimist_warm_bytes", "Bytes of the statistics, feature maps and references that are kept warm.", registry=SCORER
)
LAST_SWEEP = Gauge(
    "optimist_sweep_timestamp_seconds", "Unix time of the last look at every experiment; 0: never.", registry=SCORER
)

# Of all experiments, as the scorer last saw them: each scorer shows the same

EXPERIMENTS = Gauge("optimist_experiments", "Experiments.", registry=SCORER)
GENERATORS = Gauge("optimist_generators", "Generators that are not retired.", registry=SCORER)
OVERDUE = Gauge("optimist_estimates_overdue", "Generators with an estimate that is due and not made.", registry=SCORER)
STALENESS = Gauge(
    "optimist_staleness_seconds", "For how long the estimate has been due that has waited longest.", registry=SCORER
)
LOG_BYTES = Gauge("optimist_log_bytes", "Bytes of batches logged after the snapshots.", registry=SCORER)
LOG_ENTRIES = Gauge("optimist_log_entries", "Batches logged after the snapshots.", registry=SCORER)
SNAPSHOT_AGE = Gauge(
    "optimist_snapshot_age_seconds",
    "For how long the log that has waited longest for a snapshot has been out of bounds.",
    registry=SCORER,
)
DAMAGED = Gauge("optimist_generators_damaged", "Generators that cannot be scored.", registry=SCORER)
SET_ASIDE_ENTRIES = Gauge(
    "optimist_set_aside_entries", "Batches that stand in logs, or did, and cannot be read.", registry=SCORER
)

REGISTRY.register(RELAY)
