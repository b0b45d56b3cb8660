"""Names of everything in Redis. All keys of one experiment share the hash tag {id}, so a script may touch them all."""

from __future__ import annotations

import re
from typing import Final, Literal

from optimist.records import Artefact
from optimist_client.errors import FixError

EXPERIMENTS = "optimist:experiments"
"""Sorted set: experiment ids by the time of their creation."""
REFERENCES = "optimist:references"
"""Sorted set: reference names by the time of their upload."""
FORMAT = "optimist:format"
"""String: the version of all that is here (`formats.FORMAT`)."""
SCORERS = "optimist:scorers"
"""Sorted set: the scorers that are there, by the time until which they said so."""
WEBHOOKS = "optimist:webhooks"
"""Sorted set: ids of the experiments that have a webhook of their own, by the time at which it was set."""
MESSENGER = "optimist:messenger"
"""String that expires: the API process that looks for what messages have to tell."""
DUE = "optimist:due"
"""Channel: "<id> <generator> <seq>" for every batch after which an estimate is due; "<id> 0 0" of a new experiment."""
SCORED = "optimist:scored"
"""Channel: "<id> <generator> <seq>" for every new estimate by the metric that decides; "<id> 0 <samples>" for every new
mixture, or model, that picks are made from."""
WANTED = "optimist:wanted"
"""Channel: "<id> 0 0 <artefact>" where somebody waits for something that scorers make."""

MIXTURE: Final = "mixture"
"""In place of an ordinal: the mixture of all generators."""
MODEL_UNIT: Final = "model"
"""In place of an ordinal: the model of the goal, and its table, of all generators."""
ClaimSubject = int | Literal["mixture", "model"]
"""The subject of a claim: a generator, by its ordinal, and the mixture of all, by each metric; and the model."""
_CLAIMED: dict[str, ClaimSubject] = {"mixture": MIXTURE, "model": MODEL_UNIT, "table": MODEL_UNIT}

# A unit is a generator as one metric scores it: "<g>:<label>".
EXPERIMENT_PARTS = (
    "config",  # string: JSON as the API validated it; its existence is the experiment's
    "generators",  # hash: ordinal → name
    "states",  # hash: ordinal → paused or retired; none where active
    "controls",  # hash: what may change of an experiment, as the API writes it
    "counts",  # hash: rounds, told, growth, instance, keep_log, batch_size, claims; per generator what enrol.lua lists
    "tokens",  # hash: version modulo 128 → its state token, of the newest, see prelude.lua
    "changes",  # sorted set: ordinal, worker:<name>, or * → version of its last change, see prelude.lua
    "labels",  # list: the labels of all metrics, the deciding metric's first
    "units",  # hash: what is known of each unit, see units.lua
    "estimates",  # hash: unit → payload of the newest estimate
    "picks",  # hash: number → what opening.lua writes of it: every pick not yet settled, leased or not
    "terms",  # hash: number → "<nonce> <least rows> <most rows> <when it was opened> <access key>", of the same picks
    "contexts",  # hash: number → what the log entry of its batch will have as `context`, of the same picks
    "leases",  # sorted set: number → deadline; only these pend
    "opening_lock",  # string that expires: who may open the next picks, after a lost compare-and-set
    "requests",  # hash: request id → "number,number", for as long as these are leased
    "returned",  # hash: ordinal → runs of indices to be handed out again; see told.lua
    "settled",  # hash, newest 65,536: number → "<nonce>\t<digest>\t<answer>", given up "<nonce>\t\t<reason>"
    "settled_order",  # list: numbers of `settled`, oldest first
    "expired_order",  # list: numbers of picks whose lease ran out, oldest first
    "appended",  # hash: "<g>\t<idempotency key>" → "<digest>\t<answer>"
    "appended_at",  # sorted set: keys of `appended` by time, for a day, of the newest 65,536
    "history",  # string: seven bytes a told batch: generator, late or without a pick, rows
    "decision",  # string: JSON, set once
    "fitted",  # not a key itself: fitted:<label> are strings, what was fixed once from the first samples
    "artefacts",  # hash: what scorers made of logs: mixtures, models, tables, modes, see put_artefact.lua
    "blended",  # hash: ordinal → samples that the mixture still owes to it, and the newest answers, see blend.lua
    "claims",  # hash: unit → token, see claim.lua
    "claimed_until",  # sorted set: the same units by the time at which their claims run out
    "webhook",  # string: where messages of this experiment alone go, as the API wrote it, with its secret
    "messages",  # hash: whom a message is for, and what it tells → its id and how far it is, see claim_message.lua
    "share_keys",  # hash: id of a share → its record as the API wrote it; expires with the last one
    "audits",  # hash: id of an audit → what is asked, and what raters have said, see audits.lua
    "audit_leases",  # sorted set: "<id>\t<rater>\t<access key>" → deadline; only these have it
    "audit_records",  # stream: all that was said of samples, see audits.lua
    "retractions",  # stream: every retraction, its fields as texts, see retracted.lua
    "acceptances",  # stream: the same of batches that were accepted on another scale, see accept_batch.lua
    "quarantined",  # hash: "<g>:<seq>" → why this entry of the log cannot be read
    "checks",  # hash: what batches are compared with as they come, see checking.lua
    "named_copies",  # hash: "<g>:<seq>" of a batch that repeats another one → which one, see checking.lua
    "levels",  # not a key itself: levels:<g> are sorted sets, see levels.lua
    "previews",  # not a key itself: previews:<g>, …:bodies and …:places are hashes, see put_previews.lua
    "log",  # not a key itself: log:<g> are streams, ids <seq>-0: batches after the oldest snapshot, and retractions
    "told",  # not a key itself: told:<g> are sorted sets of the indices that were told, see told.lua
    "curve",  # not a key itself: curve:<unit> and curve:<artefact> are lists, see curve.lua
    "snapshot",  # not a key itself: snapshot:<unit>:<unique>:<i> are strings, the chunks of a snapshot
)

KEYS = "optimist:keys"
"""Hash: id of an access key → its record, JSON with the digest of its secret."""
PROBE = "optimist:probe"
"""String that expires: written to see whether Redis takes writes; "<this>:<number>" for each master of a cluster."""

COPIES = "~"
"""The end of the name of a namespace for copies of experiments, which nobody can name; and in the instance of a copy
the text after the instance of its original."""
DEFAULT_NAMESPACE = "default"
"""Its names stand in keys as they are; names of any other namespace as "<namespace>/<name>"."""

# A brace would change the slot; announcements are split at spaces.
_NAME = re.compile(r"[^{}\s]{1,256}")


def checked(name: str) -> str:
    """Return `name` if it can stand in a key; raises FixError for an empty one or one with braces or white space."""
    if not _NAME.fullmatch(name):
        raise FixError(f"{name!r} cannot be a name: 1 to 256 characters, no braces, no white space")
    return name


def full_name(namespace: str, name: str) -> str:
    """The full name of an experiment or reference, as in keys and announcements.

    Raises FixError where either holds a slash, by which it could be taken for one of another namespace.
    """
    if "/" in name or "/" in namespace:
        raise FixError(f"{name!r} of {namespace!r} cannot be a name: no slashes")
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"


def namespace_of(full: str) -> str:
    """The namespace of a full name."""
    return full.rpartition("/")[0] or DEFAULT_NAMESPACE


def name_of(full: str) -> str:
    """The name of an experiment or reference in its namespace, by its full name."""
    return full.rpartition("/")[2]


def experiment_key(experiment: str, part: str) -> str:
    """Key of one part of an experiment."""
    return f"optimist:{{{checked(experiment)}}}:{part}"


def unit(generator: ClaimSubject, label: str) -> str:
    """A generator, or what is made of all of them, as the metric of this label scores it."""
    return f"{generator}:{label}"


def claimed_for(artefact: Artefact) -> ClaimSubject:
    """The subject of the claim under which an artefact is published."""
    return _CLAIMED[artefact.kind] if artefact.generator is None else artefact.generator


def reference_key(name: str) -> str:
    """The key of a reference. Raises FixError as `checked` does."""
    return f"optimist:reference:{checked(name)}"


def upload_key(name: str, upload: str) -> str:
    """Key of a reference on its way: its hash tag is the whole key it will be renamed to, hence the same slot."""
    return f"{{{reference_key(name)}}}:upload:{upload}"


def leaving_key(name: str) -> str:
    """Key that is there while a reference is about to be deleted, in the slot of the reference."""
    return f"{{{reference_key(name)}}}:leaving"
