"""What a client knows of queues, so that it need not ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.postgres.floors import Floor
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.drivers.relational.queues.selections import Selection
from headrace.drivers.relational.queues.walks import Walks
from headrace.drivers.relational.sql import Whole
from headrace.model.items import ItemState, rank_of

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

MOST_KNOWN = 1000
MOST_CLAIMS = 100


class Counted(NamedTuple):
    """What a claim has counted: by rules of which version, in which totals, how much in each."""

    items: frozenset[int]
    rules: int
    totals: str
    numbers: str


class Known:
    """Queues as they were last seen, and how far claims have come in each of them.

    What is known may be old: every statement checks the version of the settings.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queues: dict[str, QueueRow] = {}
        self._floors: dict[str, Floor] = {}
        self._turn_floors: dict[tuple[str, str], Floor] = {}
        self.walks = Walks()
        # Until when claims on queues expect that totals have hardly any room.
        self.tight: dict[int, float] = {}
        # Whether somebody waited for what was pushed last.
        self.are_awaited = False
        # Queues whose last claim got something.
        self.busy: set[int] = set()
        self._selections: dict[tuple[int, int, str], Selection | None] = {}
        # By the token of the claim.
        self._counted: dict[str, Counted] = {}

    def queue(self, name: str, *, anew: bool = False) -> Steps[QueueRow | None]:
        """A queue that was live when it was last seen."""
        queue = self._queues.get(name)
        if queue is None or anew:
            sql = self._store.sql
            [rows] = yield Whole((sql.find_queue(name=name, now=self._store.clock()),))
            queue = queue_of(rows[0]) if rows and rows[0]["is_live"] else None
            if len(self._queues) > MOST_KNOWN:
                self._queues.clear()
            if queue is None:
                self._queues.pop(name, None)
            else:
                self._queues[name] = queue
        return queue

    def selection(self, queue: QueueRow, select: str) -> Steps[Selection | None]:
        """A query, if it is registered: whoever changes that changes the version, too."""
        place = (queue.id, queue.selections, select)
        if queue.selections and place not in self._selections:
            statement = self._store.sql.find_selection(queue=queue.id, form=select)
            [rows] = yield Whole((statement,))
            if len(self._selections) > MOST_KNOWN:
                self._selections.clear()
            found = Selection(rows[0]["id"], rows[0]["since"]) if rows else None
            self._selections[place] = found
        return self._selections.get(place)

    def note_counted(
        self, token: str, rules: int, items: Iterable[ItemState], counted: str
    ) -> None:
        """Remember what a claim has counted, for when all of it is completed."""
        if len(self._counted) >= MOST_CLAIMS:
            self._counted.clear()
        totals, _, numbers = counted.partition(";")
        ids = frozenset(item.id for item in items)
        self._counted[token] = Counted(ids, rules, totals, numbers)

    def counted(self, tokens: Sequence[str], items: Sequence[int]) -> Counted | None:
        """What the claims of some items have counted, if they are all of them. Asked once: when
        some of them are completed, those left are not all any more."""
        found = [self._counted.pop(token, None) for token in dict.fromkeys(tokens)]
        claims = [claim for claim in found if claim is not None]
        if not claims or len(claims) < len(found):
            return None
        if len({claim.rules for claim in claims}) > 1:
            return None
        if frozenset().union(*(claim.items for claim in claims)) != frozenset(items):
            return None
        return claims[0] if len(claims) == 1 else _together(claims)

    def floor(self, queue: QueueRow) -> tuple[int | None, int | None]:
        """The rank and place up to which everything was claimed, if that is of any use."""
        floor = self._floors.get(queue.name)
        if floor is None or not floor.is_wanted or queue.settings.discipline == "lifo":
            return None, None
        return floor.rank, floor.position

    def raise_floor(
        self, queue: QueueRow, items: Sequence[ItemState], most: int, seconds: float
    ) -> None:
        """Remember how far a claim has come, and how long it took."""
        floor = self._floors.get(queue.name)
        if floor is None:
            floor = self._floors[queue.name] = Floor()
        if len(items) < most:
            floor.reset()
            return
        last = items[-1]
        rank = -rank_of(queue.settings.discipline, last.priority)
        floor.rise(rank, (last.position or 0) + 1, seconds, most)

    def turn_floor(self, queue: QueueRow, select: str) -> int | None:
        """The turn below which no channel that is selected had one, if that is of any use.

        Not where the order inside a channel is strict, or the newest comes first: with a turn go
        the places in the channel that was served then.
        """
        settings = queue.settings
        floor = self._turn_floors.get((queue.name, select))
        if floor is None or not floor.is_wanted or settings.serial or settings.discipline == "lifo":
            return None
        return floor.position

    def raise_turn_floor(
        self, queue: QueueRow, select: str, turn: int | None, items: int, most: int, seconds: float
    ) -> None:
        """Remember the first turn that a claim has found, and how long it took.

        Whoever comes to take turns stands behind all others: what is announced changes nothing.
        """
        if len(self._turn_floors) > MOST_KNOWN:
            self._turn_floors.clear()
        floor = self._turn_floors.setdefault((queue.name, select), Floor())
        if turn is None or items < most:
            floor.reset()
        else:
            floor.rise(0, turn - 1, seconds, items)

    def lower_floors(self, announced: Collection[str]) -> None:
        """Items have come to stand in line, some perhaps at an old place of theirs."""
        for topic in announced:
            floor = self._floors.get(topic.removeprefix("queue/"))
            if floor is not None:
                floor.reset()


def _together(claims: Sequence[Counted]) -> Counted:
    """What several claims have counted, without the items."""
    numbers = Counter[str]()
    for claim in claims:
        for total, number in zip(claim.totals.split(","), claim.numbers.split(","), strict=True):
            numbers[total] += int(number)
    counted = ",".join(map(str, numbers.values()))
    return Counted(frozenset(), claims[0].rules, ",".join(numbers), counted)
