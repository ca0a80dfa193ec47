"""What every method about queues asks of the store: built once for blocking and async clients."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.client.calls import Call
from headrace.contract.items import (
    Backlog,
    ClientRow,
    DeadGroup,
    EndedItem,
    Filter,
    LoggedError,
    Outcome,
    PushCall,
    Sample,
    Settled,
    Take,
    Taking,
)
from headrace.contract.queues import QueueStore
from headrace.core.channels import ChannelInfo, Choice, form_of, info_of
from headrace.core.documents import (
    Doc,
    Fields,
    Mode,
    SharedFields,
    check_subject,
    document,
    encoded,
)
from headrace.core.looking import QueueStats, stats_of
from headrace.core.pushes import PushResult, debounce, push_call, result_of
from headrace.core.queue_settings import Settings, changes_of
from headrace.core.times import Duration, Moment, duration_ms, moment_ms, moment_of
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.codec import encode_value
from headrace.model.items import Document, ItemState, State
from headrace.model.keyvalues import KeyValues
from headrace.model.names import check_queue
from headrace.model.queries import Query
from headrace.model.queues import QueueInfo, QueueSettings, WhileActive
from headrace.model.tokens import claim_token

HOST = socket.gethostname()
LAST_ID = 2**63 - 1
MOST_LEASES = 1000


class QueueCalls:
    """Checks arguments and builds operations on queues; raises before anything is sent."""

    def __init__(self, store: QueueStore, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def one(
        self,
        queue: str,
        payload: Any,
        fields: Fields,
        key: str | None,
        *,
        mode: Mode = "push",
        while_active: WhileActive | None = None,
        pause: Duration | None = None,
        max_wait: Duration | None = None,
    ) -> PushCall:
        """A push or an upsert of one document."""
        if mode == "push" and not fields and key is None and type(payload) is dict:
            # Nothing is said but the payload: there is nothing else to check.
            line = encode_value(payload, "$", max_body=self.max_body)
            return PushCall(queue=check_queue(queue), documents=(Document(payload=line),))
        given = document(Doc(payload, **fields), max_body=self.max_body)
        wait = debounce(pause, max_wait)
        return push_call(queue, (given,), mode=mode, while_active=while_active, wait=wait, key=key)

    def many(
        self,
        queue: str,
        documents: object,
        fields: SharedFields,
        key: str | None,
        *,
        mode: Mode = "push",
        while_active: WhileActive | None = None,
        pause: Duration | None = None,
        max_wait: Duration | None = None,
    ) -> PushCall:
        """A push or an upsert of many documents."""
        given = encoded(documents, fields, max_body=self.max_body)
        wait = debounce(pause, max_wait)
        return push_call(queue, given, mode=mode, while_active=while_active, wait=wait, key=key)

    def push(self, call: PushCall) -> Call[PushResult]:
        return Call(self.store.push([call]), lambda outcomes: result_of(outcomes[0]))

    def claim(self, queue: str, count: int, lease: Duration | None, choice: Choice) -> Call[Taking]:
        take = Take(
            queue=queue,
            token=claim_token(),
            count=positive("count", count),
            lease_ms=None if lease is None else duration_ms("lease", lease, least=1),
            worker=me(),
            **choice,
        )
        return Call(self.store.claim_items(take), same)

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Call[list[Settled]]:
        given = list(outcomes)
        for said in given:
            if not isinstance(said, Outcome):
                raise InvalidOption(
                    f"{said!r:.80} is not an outcome: make one with item.outcome(...).",
                    option="outcomes",
                )
        return Call(self.store.settle(check_queue(queue), given), same)

    def extend(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Call[list[int]]:
        return Call(self.store.extend_items(queue, token, items, lease_ms), same)

    def gone(self, queue: str, token: str, items: Sequence[int]) -> Call[list[int]]:
        return Call(self.store.gone_items(queue, token, items), same)

    def channels(
        self, queue: str, select: Query | None, after: KeyValues | None, limit: int
    ) -> Call[list[ChannelInfo]]:
        chosen = None if select is None else form_of(select)
        last = "" if after is None else KeyValues.of(after, "after").form
        op = self.store.channels(queue, chosen, last, positive("limit", limit))
        return Call(op, lambda rows: [info_of(row) for row in rows])

    def register_selection(self, queue: str, select: Query) -> Call[None]:
        return Call(self.store.register_selection(check_queue(queue), form_of(select)), same)

    def forget_selection(self, queue: str, select: Query) -> Call[bool]:
        return Call(self.store.forget_selection(check_queue(queue), form_of(select)), same)

    def selections(self, queue: str) -> Call[list[Query]]:
        return Call(
            self.store.selections(check_queue(queue)),
            lambda rows: [Query.from_json(row.select) for row in rows],
        )

    def hold_channel(
        self, queue: str, key_values: Mapping[str, Any], at: Moment | None, delay: Duration | None
    ) -> Call[datetime]:
        form = KeyValues.of(key_values, "channel").form
        if (at is None) == (delay is None):
            raise InvalidOption("give at or delay: how long nothing may run.", option="delay")
        until = None if at is None else moment_ms("at", at)
        wait = None if delay is None else duration_ms("delay", delay)
        return Call(self.store.hold_channel(queue, form, until, wait), moment_of)

    def end_hold(self, queue: str, key_values: Mapping[str, Any]) -> Call[None]:
        form = KeyValues.of(key_values, "channel").form
        return Call(self.store.hold_channel(queue, form, None, None), same)

    def channel_hold(self, queue: str, key_values: KeyValues) -> Call[ChannelInfo]:
        """A channel without items."""
        return Call(
            self.store.channel_hold(queue, key_values.form),
            lambda until: ChannelInfo(
                key_values=key_values, held_until=None if until is None else moment_of(until)
            ),
        )

    def expire(self, queue: str) -> Call[list[int]]:
        return Call(self.store.expire_leases(queue, MOST_LEASES), same)

    def item(self, queue: str, item: int | str) -> Call[ItemState | EndedItem]:
        return Call(self.store.item(queue, item_of(item)), same)

    def items(
        self, queue: str, state: object, after: int, limit: int
    ) -> Call[list[ItemState | EndedItem]]:
        most = positive("limit", limit)
        return Call(self.store.items(queue, state_of(state), after, most), same)

    def errors(
        self, queue: str, item: int | None, before: int | None, limit: int
    ) -> Call[list[LoggedError]]:
        last = LAST_ID if before is None else before
        return Call(self.store.logged_errors(queue, item, last, positive("limit", limit)), same)

    def samples(self, queue: str, since: Moment | None, limit: int) -> Call[list[Sample]]:
        first = 0 if since is None else moment_ms("since", since)
        return Call(self.store.samples(queue, first, positive("limit", limit)), same)

    def dead_items(
        self, queue: str, filter: Filter, after: int, limit: int
    ) -> Call[list[EndedItem]]:
        most = positive("limit", limit)
        return Call(self.store.dead_items(queue, filter, after, most), same)

    def dead_groups(self, queue: str) -> Call[list[DeadGroup]]:
        return Call(self.store.dead_groups(queue), same)

    def count_dead(self, queue: str, filter: Filter) -> Call[int]:
        return Call(self.store.count_dead(queue, filter), same)

    def stats(self, queues: object, *, is_computed: bool) -> Call[list[QueueStats]]:
        return Call(self.store.backlogs(names_of(queues), is_computed), _all_stats)

    def consolidate(self, queues: object) -> Call[list[QueueStats]]:
        return Call(self.store.consolidate(names_of(queues)), _all_stats)

    def queues(self, prefix: str, after: str, limit: int) -> Call[list[QueueInfo]]:
        return Call(self.store.queues(prefix, after, positive("limit", limit)), same)

    def defaults(self) -> Call[QueueSettings]:
        return Call(self.store.queue_defaults(), same)

    def set_defaults(self, settings: Settings) -> Call[QueueSettings]:
        return Call(self.store.set_queue_defaults(changes_of(settings)), same)

    def pause(self, name: str, by: str | None) -> Call[QueueInfo]:
        return Call(self.store.pause_queue(check_queue(name), by or me()), same)

    def resume(self, name: str) -> Call[QueueInfo]:
        return Call(self.store.resume_queue(check_queue(name)), same)

    def drop(self, name: str, *, keep_data: bool) -> Call[int]:
        return Call(self.store.drop_queue(check_queue(name), keep_data), same)

    def clients(self) -> Call[list[ClientRow]]:
        return Call(self.store.clients(), same)

    def create(self, name: str, settings: Settings, *, is_new: bool) -> Call[QueueInfo]:
        changes = changes_of(settings)
        return Call(self.store.create_queue(check_queue(name), changes, is_new), same)

    def add_dead_queue(self, name: str, to: str) -> Call[QueueInfo]:
        return Call(self.store.add_dead_queue(check_queue(name), check_queue(to)), same)

    def queue_info(self, name: str) -> Call[QueueInfo]:
        return Call(self.store.queue_info(check_queue(name)), same)


def me() -> str:
    """Who asks, for people."""
    return f"{HOST}/{os.getpid()}"


def names_of(queues: object) -> list[str] | None:
    """Queues given by name or by reference, one or several; None for all."""
    if queues is None:
        return None
    some = queues if isinstance(queues, Iterable) and not isinstance(queues, str) else [queues]
    return [check_queue(getattr(queue, "name", queue)) for queue in some]


def item_of(item: object) -> int | str:
    """An item given by id or by subject."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    return check_subject(item)


def state_of(state: object) -> State:
    """A state given by its name, or by FetchQ's number."""
    for known in State:
        if state in (known, known.name.lower()):
            return known
    names = ", ".join(known.name.lower() for known in State)
    raise InvalidOption(f"state is {state!r}: use {names}.", option="state")


def _all_stats(backlogs: Sequence[Backlog]) -> list[QueueStats]:
    return [stats_of(backlog) for backlog in backlogs]


def same(value: Any) -> Any:
    """The answer as it is."""
    return value
