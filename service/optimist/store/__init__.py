"""The store: all state of Optimist, in Redis. It takes and returns bytes and JSON, and does no numerics.

`connect` or `start_embedded` reach a Redis, `Store` keeps experiments and references in it.
"""

from optimist.store.announcements import Announcement, Announcements
from optimist.store.connection import connect, open_store
from optimist.store.embedded import EmbeddedRedis, running_url, start_embedded
from optimist.store.keys import (
    DEFAULT_NAMESPACE,
    DUE,
    MIXTURE,
    MODEL_UNIT,
    SCORED,
    WANTED,
    ClaimSubject,
    claimed_for,
    name_of,
    namespace_of,
)
from optimist.store.parsing import CachedState
from optimist.store.scores import kernels_digest
from optimist.store.store import Store, Usage
