"""Errors of the store, named by what the caller should do.

StoreError
├── NotFound            fix the name: there is no such experiment, generator, pick or reference
├── Refused             fix the batch: it does not fit its pick, or is not plausible; nothing was stored
├── Conflict            stop: the name or the pick already stands for something else
│   └── Retracted       stop: the batch was accepted, and retracted since
├── Full                stop, or remove some: there are as many as there may be
├── NotRetractable      read the alternatives: the batch cannot be retracted, or not alone
├── Gone                stop: so old that the store no longer knows it; nothing was counted now
├── Superseded          drop derived data and claim anew: another scorer has taken over the generator
├── LogGap              start again from a snapshot, or name the error: the log does not go on where it should
├── CorruptData             quarantine and name it: stored bytes do not match their digest
├── Unavailable         try again soon: Redis is unreachable, loading, full or busy
└── CannotStart         read the message, and mend the machine, the URL or the server's settings
    └── DirectoryInUse  stop the other service, or choose another data directory
"""

from __future__ import annotations


class StoreError(Exception):
    """Root of the store's exceptions."""


class NotFound(StoreError):
    """No such experiment, generator, pick or reference."""


class Refused(StoreError):
    """The batch does not fit its pick or the experiment, or is not plausible; nothing was stored."""


class Conflict(StoreError):
    """The name or the pick already exists with other contents; repeating the call will not help."""


class Retracted(Conflict):
    """The batch was accepted and retracted since; it no longer counts, and telling it again does not help."""


class NotRetractable(StoreError):
    """The batch cannot be retracted; the text names the alternatives."""


class Full(StoreError):
    """The limit of experiments, references or generators is reached."""


class Gone(StoreError):
    """The pick ended so long ago that its end is no longer known, or Redis has lost it; nothing was counted now."""


class Superseded(StoreError):
    """The token is not the current claim's: another scorer has the generator, or the experiment was created again."""


class LogGap(StoreError):
    """A log's positions are not dense, so nothing may be derived from later entries."""


class CorruptData(StoreError):
    """Stored bytes do not match the digest stored beside them."""


class Unavailable(StoreError):
    """Redis cannot serve now. Every call may be sent again: whatever it committed is recognised."""


class CannotStart(StoreError):
    """The embedded redis-server cannot be found or did not come up, or the Redis given is not fit to serve."""


class DirectoryInUse(CannotStart):
    """Another service, or its redis-server, holds the data directory."""
