"""What a client remembers of queues, so that it can skip reading them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath.scan_floor import ScanFloor
from headrace.drivers.sql_common.queues.rows import QueueRow, queue_of
from headrace.drivers.sql_common.queues.scan_hints import ScanHints
from headrace.drivers.sql_common.queues.selections import StoredSelection
from headrace.drivers.sql_common.statements import Autocommit
from headrace.model.queues.items import ItemState, rank_of

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

MAX_QUEUES = 1000
MAX_CLAIMS = 100
# For how long claims skip expired leases of items that other transactions have locked.
LOCKED_SECONDS = 1.0
# A worker that ends a lease locks the item, too, but for less than this.
ENDING_SECONDS = 0.1


class Counted(NamedTuple):
    """What a claim has counted: the version of the rules, the counters, the amount in each."""

    items: frozenset[int]
    rule_version: int
    counters: str
    numbers: str


class QueueCache:
    """Queues as the client last read them, and how far claims have come in each of them.

    Entries may be stale: every statement checks the version of the settings.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queues: dict[str, QueueRow] = {}
        self._floors: dict[str, ScanFloor] = {}
        self._turn_floors: dict[tuple[str, str], ScanFloor] = {}
        self.scan_hints = ScanHints()
        # By queue: until when claims expect counters close to their limits.
        self.tight: dict[int, float] = {}
        # Whether a client waited for the items of the last push.
        self.are_awaited = False
        # Queues whose last claim returned items.
        self.busy: set[int] = set()
        # By queue: until when claims skip expired leases, since other transactions lock the items.
        self._locked_until: dict[int, float] = {}
        # By queue: a expired lease that a claim could not end, and when that was first noticed.
        self._missed: dict[int, tuple[int, float]] = {}
        self._selections: dict[tuple[int, int, str], StoredSelection | None] = {}
        # By the token of the claim.
        self._counted: dict[str, Counted] = {}

    def queue(self, name: str, *, reload: bool = False) -> Steps[QueueRow | None]:
        """A queue that was live when it was last read."""
        queue = self._queues.get(name)
        if queue is None or reload:
            sql = self._store.sql
            statement = sql.find_queue(name=name, now=self._store.clock())
            [rows] = yield Autocommit((statement,), reads=True)
            queue = queue_of(rows[0]) if rows and rows[0]["is_live"] else None
            if len(self._queues) > MAX_QUEUES:
                self._queues.clear()
            if queue is None:
                self._queues.pop(name, None)
            else:
                self._queues[name] = queue
        return queue

    def selection(self, queue: QueueRow, select: str) -> Steps[StoredSelection | None]:
        """A query, if it is registered. Registering or removing one changes the version, too."""
        place = (queue.id, queue.selections, select)
        if queue.selections and place not in self._selections:
            statement = self._store.sql.find_selection(queue=queue.id, form=select)
            [rows] = yield Autocommit((statement,), reads=True)
            if len(self._selections) > MAX_QUEUES:
                self._selections.clear()
            found = StoredSelection(rows[0]["id"], rows[0]["since"]) if rows else None
            self._selections[place] = found
        return self._selections.get(place)

    def note_counted(
        self, token: str, rule_version: int, items: Iterable[ItemState], counted: str
    ) -> None:
        """Remember what a claim has counted, for the completion of all its items."""
        if len(self._counted) >= MAX_CLAIMS:
            self._counted.clear()
        counters, _, numbers = counted.partition(";")
        ids = frozenset(item.id for item in items)
        self._counted[token] = Counted(ids, rule_version, counters, numbers)

    def counted(self, tokens: Sequence[str], items: Sequence[int]) -> Counted | None:
        """What the claims of some items have counted, if these are all their items.

        Each claim can be asked for once: after a partial completion its counts no longer match.
        """
        found = [self._counted.pop(token, None) for token in dict.fromkeys(tokens)]
        claims = [claim for claim in found if claim is not None]
        if not claims or len(claims) < len(found):
            return None
        if len({claim.rule_version for claim in claims}) > 1:
            return None
        if frozenset().union(*(claim.items for claim in claims)) != frozenset(items):
            return None
        return claims[0] if len(claims) == 1 else _together(claims)

    def note_ended(self, queue: QueueRow) -> None:
        """A claim has ended expired leases, or there are none."""
        self._locked_until.pop(queue.id, None)
        self._missed.pop(queue.id, None)

    def note_missed(self, queue: QueueRow, lease: int) -> None:
        """A claim could not end the oldest expired lease, because the item is locked.

        If that lasts, an open transaction has locked it; otherwise another worker ended the lease.
        """
        now = time.monotonic()
        missed, since = self._missed.get(queue.id, (None, now))
        if missed != lease:
            self._missed[queue.id] = (lease, now)
        elif now - since >= ENDING_SECONDS:
            self._locked_until[queue.id] = now + LOCKED_SECONDS

    def ends_leases(self, queue: QueueRow) -> bool:
        """Whether a claim should end expired leases."""
        return self._locked_until.get(queue.id, 0.0) <= time.monotonic()

    def floor(self, queue: QueueRow) -> tuple[int | None, int | None]:
        """The rank and position up to which everything was claimed, if a floor pays off now."""
        floor = self._floors.get(queue.info.name)
        if floor is None or not floor.is_wanted or queue.info.settings.discipline == "lifo":
            return None, None
        return floor.rank, floor.position

    def raise_floor(
        self, queue: QueueRow, items: Sequence[ItemState], most: int, seconds: float
    ) -> None:
        """Remember how far a claim has come, and how long it took."""
        floor = self._floors.get(queue.info.name)
        if floor is None:
            floor = self._floors[queue.info.name] = ScanFloor()
        if len(items) < most:
            floor.reset()
            return
        last = items[-1]
        rank = -rank_of(queue.info.settings.discipline, last.priority)
        floor.rise(rank, (last.position or 0) + 1, seconds, most)

    def turn_floor(self, queue: QueueRow, select: str) -> int | None:
        """The turn below which no selected channel had one, if a floor pays off now.

        Unused where the order inside a channel is strict, or where the newest item comes first: a
        turn floor also skips positions inside the channels that were served.
        """
        settings = queue.info.settings
        floor = self._turn_floors.get((queue.info.name, select))
        if floor is None or not floor.is_wanted or settings.serial or settings.discipline == "lifo":
            return None
        return floor.position

    def raise_turn_floor(
        self, queue: QueueRow, select: str, turn: int | None, items: int, most: int, seconds: float
    ) -> None:
        """Remember the first turn that a claim has found, and how long it took.

        A channel that becomes ready gets a turn behind all others, so a notification does not
        lower this floor.
        """
        if len(self._turn_floors) > MAX_QUEUES:
            self._turn_floors.clear()
        floor = self._turn_floors.setdefault((queue.info.name, select), ScanFloor())
        if turn is None or items < most:
            floor.reset()
        else:
            floor.rise(0, turn - 1, seconds, items)

    def lower_floors(self, announced: Collection[str]) -> None:
        """Reset floors: items were put in line, some perhaps at an earlier position of theirs."""
        for topic in announced:
            floor = self._floors.get(topic.removeprefix("queue/"))
            if floor is not None:
                floor.reset()


def _together(claims: Sequence[Counted]) -> Counted:
    """The counts of several claims together, without the items."""
    numbers = Counter[str]()
    for claim in claims:
        for counter, number in zip(
            claim.counters.split(","), claim.numbers.split(","), strict=True
        ):
            numbers[counter] += int(number)
    counted = ",".join(map(str, numbers.values()))
    return Counted(frozenset(), claims[0].rule_version, ",".join(numbers), counted)
