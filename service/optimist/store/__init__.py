"""The store: all state of Optimist, in Redis. It takes and returns bytes and JSON, and does no numerics.

`connect` or `start_embedded` reach a Redis, `Store` keeps experiments and references in it.
"""

from optimist.store.announcements import Announcement, Announcements
from optimist.store.checking import Measures, Size
from optimist.store.connect import connect, open_store
from optimist.store.embedded import EmbeddedRedis, running_url, start_embedded
from optimist.store.errors import (
    CannotStart,
    Conflict,
    Damaged,
    DirectoryInUse,
    Full,
    Gone,
    LogGap,
    NotFound,
    NotRetractable,
    Refused,
    Retracted,
    StoreError,
    Superseded,
    Unavailable,
)
from optimist.store.experiments import COST
from optimist.store.keys import DEFAULT_NAMESPACE, DUE, MODES, MODES_MADE, SCORED, namespace_of
from optimist.store.records import (
    AskGroup,
    Batch,
    Claim,
    CurvePoint,
    Exchanged,
    Health,
    LogEntry,
    NewPick,
    Opened,
    Opening,
    Settled,
    Snapshot,
    Usage,
)
from optimist.store.retractions import RetractedLog
from optimist.store.scores import kernels_digest
from optimist.store.state import (
    SUSPECTS,
    ExperimentState,
    GeneratorState,
    OpenPick,
    Origin,
    Retraction,
    Returned,
    SetAside,
    State,
    Suspect,
)
from optimist.store.store import Store

__all__ = [
    "COST",
    "DEFAULT_NAMESPACE",
    "DUE",
    "MODES",
    "MODES_MADE",
    "SCORED",
    "SUSPECTS",
    "Announcement",
    "Announcements",
    "AskGroup",
    "Batch",
    "CannotStart",
    "Claim",
    "Conflict",
    "CurvePoint",
    "Damaged",
    "DirectoryInUse",
    "EmbeddedRedis",
    "Exchanged",
    "ExperimentState",
    "Full",
    "GeneratorState",
    "Gone",
    "Health",
    "LogEntry",
    "LogGap",
    "Measures",
    "NewPick",
    "NotFound",
    "NotRetractable",
    "OpenPick",
    "Opened",
    "Opening",
    "Origin",
    "Refused",
    "Retracted",
    "RetractedLog",
    "Retraction",
    "Returned",
    "SetAside",
    "Settled",
    "Size",
    "Snapshot",
    "State",
    "Store",
    "StoreError",
    "Superseded",
    "Suspect",
    "Unavailable",
    "Usage",
    "connect",
    "kernels_digest",
    "namespace_of",
    "open_store",
    "running_url",
    "start_embedded",
]
