"""What clients of a simulated experiment want, drawn at random."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimist.dispatch.writer import Command
from optimist.experiments.drafts import Draft
from optimist.experiments.transitions import batches, blending, controls, picks, previews, retracting
from optimist.records import Contents, Measures, PickBatch, PreparedPreview, Size
from optimist.records.tables import CONTROLS, UNITS, PickRow, RootRow

GENERATORS = 3
SIZE = 5
ROOM = picks.Room(experiment=24, worker=4, key=20)
LABEL = "m"
PREVIEWS = 6


@dataclass(eq=False)
class Operation:
    """What a client wants, again and again until it is answered."""

    kind: str
    command: Command
    about: tuple[Any, ...] = ()
    """By which two answers are those of one thing."""
    is_answered: bool = False
    ended: frozenset[str] = frozenset()
    """The picks that had ended when it was first received."""
    lost: int = -1
    """How often writes had been lost by then; -1: it was not received."""


@dataclass(frozen=True)
class Alternating:
    """Chooses active generators in turn, as long as the budget lasts. `size`: of its picks."""

    size: int = SIZE

    def is_spent(self, draft: Draft) -> bool:
        budget = draft.tables[CONTROLS].get("budget")
        return budget is not None and draft.tables.samples >= int(budget)

    def choose(self, draft: Draft, number: int, place: int) -> picks.Chosen | None:
        tables = draft.tables
        able = [g for g, row in sorted(tables.generators.items()) if row.state == "active"]
        budget = tables[CONTROLS].get("budget")
        left = self.size if budget is None else int(budget) - tables.samples - tables.open_samples.total()
        if not able or left <= 0:
            return None
        return picks.Chosen(able[number % len(able)], min(self.size, left), 1, 0 if number % 3 else 2 * self.size)

    def describe(self, draft: Draft, number: int, pick: PickRow) -> picks.Described:
        record = f"pick {number} from {pick.start} by {pick.nonce}"
        return picks.Described(record, asked=f"{number % 2:08x}", context="Y29udGV4dA==" if number % 7 == 0 else "")


@dataclass
class Drawer:
    """Draws operations. units, root: what scorers have noted, and what the experiment has once, as clients see it."""

    random: random.Random
    units: Callable[[], dict[str, str]]
    root: Callable[[], RootRow | None]
    leases: tuple[float, ...] = (3.0, 10.0)
    instance: str = "one"
    picks: list[tuple[int, str]] = field(default_factory=list)
    """Picks that clients got: number and nonce."""

    def draw(self, client: int) -> Operation:
        """The next operation of a client."""
        weights = {
            self._ask: 30.0,
            self._tell: 40.0,
            self._append: 8.0,
            self._give_up: 6.0,
            self._retract: 3.0,
            self._latch: 3.0,
            self._control: 2.0,
            self._previews: 2.0,
            self._accept: 1.0,
            self._set_state: 1.0,
            self._renew: 1.0,
            self._blend: 2.0,
            self._reopen: 2.0,
            self._expire: 0.5,
            self._add: 0.3,
            self._delete: 0.15,
        }
        return self.random.choices(list(weights), list(weights.values()))[0](client)

    def meant(self, command: Command) -> Command:
        """The command, if the experiment is still the one that the client means."""
        instance = self.instance

        def checked(draft: Draft) -> Any:
            controls.root_of(draft, instance)
            return command(draft)

        return checked

    def new_root(self) -> RootRow:
        return RootRow(self.instance, "config", 0.3, (LABEL,), SIZE)

    def _pick(self) -> tuple[int, str]:
        return self.random.choice(self.picks[-12:] if self.random.random() < 0.9 else self.picks)

    def _ask(self, client: int) -> Operation:
        r, request = self.random, f"{self.random.getrandbits(64):x}"
        nonces = tuple(f"{request}-{place}" for place in range(r.choice([1, 1, 1, 3])))
        worker, has_contexts = f"w{client}" if r.random() < 0.5 else "", r.random() < 0.1
        asked = picks.Ask(request, nonces, r.choice(self.leases), ROOM, worker, f"k{client % 2}", has_contexts)
        chooser = Alternating(r.choice([SIZE, SIZE, 2, 8]))
        return Operation("ask", self.meant(lambda draft: picks.ask(draft, asked, chooser)), (request,))

    def _tell(self, client: int) -> Operation:
        if not self.picks:
            return self._ask(client)
        r, (number, nonce) = self.random, self._pick()
        nonce = nonce if r.random() < 0.98 else "wrong"
        digest = f"{nonce} {'' if r.random() < 0.95 else 'other'}"
        batch = PickBatch(
            number, nonce, Contents(digest, r.choice([5, 5, 5, 3, 7]), digest.encode(), self._measures(nonce))
        )
        return Operation("tell", self.meant(lambda draft: batches.tell(draft, batch)), (number, nonce, digest))

    def _measures(self, seed: str) -> Measures:
        r = self.random
        content = hashlib.sha1(seed.encode()).hexdigest() if r.random() < 0.9 else f"{r.randrange(4):016x}"
        largest = r.choice([1.0, 1.0, 2.0, 2000.0, 1e9])
        return Measures(
            content, "", 1e6, r.random() < 0.1, (Size("rows", largest, 1, largest**2, None, r.gauss(0, 1)),)
        )

    def _give_up(self, client: int) -> Operation:
        if not self.picks:
            return self._ask(client)
        number, nonce = self._pick()
        return Operation("give up", self.meant(lambda draft: picks.give_up(draft, number, "tired", nonce)), (number,))

    def _append(self, _: int) -> Operation:
        r = self.random
        g, key, start = r.randrange(GENERATORS), f"k{r.randrange(12)}", r.choice([None, None, None, 0, 20, 33, 60, 100])
        contents = Contents(f"d{key}{start}", 4, b"body")
        about = (0, f"{g} {key}", f"{contents.digest} {start}")
        return Operation("append", self.meant(lambda draft: batches.append(draft, g, key, contents, start)), about)

    def _retract(self, _: int) -> Operation:
        r, g = self.random, self.random.randrange(GENERATORS)
        position = None if r.random() < 0.1 else r.randrange(1, 25)
        until, fits = (None, r.random() < 0.3) if position or r.random() < 0.5 else (r.randrange(1, 40), False)
        named, by = retracting.Named(None, g, position), retracting.By("me", "bad")
        if self.picks and r.random() < 0.3:
            named, until = retracting.Named(self._pick()[0]), None
        command = self.meant(lambda draft: retracting.retract(draft, named, by, until=until, fits_kernels=fits))
        return Operation("retract", command)

    def _accept(self, _: int) -> Operation:
        named = retracting.Named(None, self.random.randrange(GENERATORS), self.random.choice([None, 3, 9]))
        return Operation(
            "accept", self.meant(lambda draft: retracting.accept(draft, named, retracting.By("me", "fine")))
        )

    def _latch(self, _: int) -> Operation:
        units = self.units()
        names = {g: units.get(f"{g}:{LABEL}:made") for g in range(GENERATORS)}
        seqs = [int(units.get(f"{g}:{LABEL}:seq", 0)) for g in range(GENERATORS)]
        basis = {(UNITS, f"{g}:{LABEL}:made"): name for g, name in names.items()}
        command = self.meant(lambda draft: controls.latch(draft, repr(names), basis, seqs))
        return Operation("latch", command)

    def _reopen(self, _: int) -> Operation:
        root = self.root()
        decision = "" if root is None else root.decision or ""
        return Operation("reopen", self.meant(lambda draft: controls.reopen(draft, decision)))

    def _control(self, _: int) -> Operation:
        budget = str(self.random.randrange(400, 2000))
        pairs = [
            ("stopped", ""),
            ("stopped", ""),
            ("stopped", ""),
            ("stopped", "yes"),
            ("budget", ""),
            ("budget", budget),
        ]
        name, value = self.random.choice(pairs)
        return Operation("control", self.meant(lambda draft: controls.control(draft, {name: value})))

    def _set_state(self, _: int) -> Operation:
        g, state = self.random.randrange(GENERATORS), self.random.choice(["active", "paused", "active"])
        return Operation("set state", self.meant(lambda draft: controls.set_state(draft, g, state)))

    def _add(self, _: int) -> Operation:
        name = f"g{GENERATORS + self.random.randrange(2)}"
        return Operation("add", self.meant(lambda draft: controls.add_generator(draft, name, 5, 1.5)))

    def _renew(self, _: int) -> Operation:
        numbers: Sequence[int] = [number for number, _ in self.picks[-3:]]
        return Operation("renew", self.meant(lambda draft: picks.renew(draft, list(numbers), 5.0)))

    def _expire(self, _: int) -> Operation:
        return Operation("expire", self.meant(picks.expire))

    def _blend(self, _: int) -> Operation:
        request = f"{self.random.randrange(12)}"
        weights = {g: self.random.random() + 0.01 for g in range(GENERATORS)}
        size = self.random.randrange(1, 20)
        command = self.meant(lambda draft: blending.blend(draft, request, weights, size))
        return Operation("blend", command, (request,))

    def _previews(self, client: int) -> Operation:
        if not self.picks:
            return self._ask(client)
        number, nonce = self._pick()
        new = [PreparedPreview(place, None if place % 2 else place, "", b"image") for place in range(3)]
        return Operation(
            "previews", self.meant(lambda draft: previews.put_previews(draft, number, new, PREVIEWS, nonce))
        )

    def _delete(self, _: int) -> Operation:
        return Operation("delete", self.meant(controls.delete))
