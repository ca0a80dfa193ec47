"""Requests about the items of a queue: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.contract.items import (
    ClaimRequest,
    ClaimResponse,
    DeadGroup,
    FinishedItem,
    ItemFilter,
    LoggedError,
    Outcome,
    PushCall,
    Settled,
)
from headrace.contract.store import Session
from headrace.core.channels import Choice
from headrace.core.documents import (
    ItemOptions,
    Mode,
    SharedItemOptions,
    check_subject,
    document,
    encoded,
    with_options,
)
from headrace.core.pushes import PushResult, debounce, push_call, result_of
from headrace.core.requests.request import Request, caller
from headrace.errors import InvalidOption
from headrace.model.checks import MAX_NUMBER, not_negative, positive
from headrace.model.codec import encode_value
from headrace.model.fields import shown
from headrace.model.names import check_queue, writable_queue
from headrace.model.queues.items import Document, ItemState, State
from headrace.model.queues.settings import WhileActive
from headrace.model.times import Duration, duration_ms
from headrace.model.tokens import claim_token

LAST_ID = MAX_NUMBER
MAX_LEASES = 1000


class ItemRequests:
    """Pushes, claims, outcomes and single items."""

    def __init__(self, store: Session, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def push_one(
        self,
        queue: str,
        payload: Any,
        fields: ItemOptions,
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
            return PushCall(queue=writable_queue(queue), documents=(Document(payload=line),))
        given = document(with_options(payload, fields), max_body=self.max_body)
        wait = debounce(pause, max_wait)
        return push_call(queue, (given,), mode=mode, while_active=while_active, wait=wait, key=key)

    def push_many(
        self,
        queue: str,
        documents: object,
        fields: SharedItemOptions,
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

    def push(self, call: PushCall) -> Request[PushResult]:
        return Request(self.store.queues.push([call]), lambda outcomes: result_of(outcomes[0]))

    def claim(
        self, queue: str, count: int, lease: Duration | None, choice: Choice
    ) -> Request[ClaimResponse]:
        request = ClaimRequest(
            queue=queue,
            token=claim_token(),
            count=positive("count", count),
            lease_ms=None if lease is None else duration_ms("lease", lease, least=1),
            worker=caller(),
            **choice,
        )
        return Request(self.store.queues.claim(request))

    def settle(self, queue: str, given: Sequence[Outcome]) -> Request[list[Settled]]:
        for said in given:
            if not isinstance(said, Outcome):
                raise InvalidOption(
                    f"{shown(said)} is not an outcome: make one with item.outcome(...).",
                    option="outcomes",
                )
        return Request(self.store.queues.settle(check_queue(queue), given))

    def extend(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Request[list[int]]:
        return Request(self.store.queues.extend(queue, token, items, lease_ms))

    def deleted(self, queue: str, token: str, items: Sequence[int]) -> Request[list[int]]:
        return Request(self.store.channels.deleted_items(queue, token, items))

    def expire(self, queue: str) -> Request[list[int]]:
        return Request(self.store.queues.expire_leases(queue, MAX_LEASES))

    def undo(self, queue: str, claimed: ItemState) -> Request[ItemState]:
        return Request(self.store.queues.retry_item(queue, claimed.id, claimed))

    def item(self, queue: str, item: int | str) -> Request[ItemState | FinishedItem]:
        return Request(self.store.queues.item(queue, item_of(item)))

    def items(
        self, queue: str, state: object, after: int, limit: int
    ) -> Request[list[ItemState | FinishedItem]]:
        most = positive("limit", limit)
        first = not_negative("after", after, most=LAST_ID)
        return Request(self.store.queues.items(queue, state_of(state), first, most))

    def errors(
        self, queue: str, item: int | None, before: int | None, limit: int
    ) -> Request[list[LoggedError]]:
        last = LAST_ID if before is None else not_negative("before", before, most=LAST_ID)
        if item is not None:
            item = not_negative("item", item, most=LAST_ID)
        return Request(self.store.queues.logged_errors(queue, item, last, positive("limit", limit)))

    def dead_items(
        self, queue: str, filter: ItemFilter, after: int, limit: int
    ) -> Request[list[FinishedItem]]:
        most = positive("limit", limit)
        first = not_negative("after", after, most=LAST_ID)
        return Request(self.store.queues.dead_items(queue, filter, first, most))

    def dead_groups(self, queue: str) -> Request[list[DeadGroup]]:
        return Request(self.store.queues.dead_groups(queue))

    def count_dead(self, queue: str, filter: ItemFilter) -> Request[int]:
        return Request(self.store.queues.count_dead(queue, filter))


def item_of(item: object) -> int | str:
    """An item given by id or by subject."""
    if isinstance(item, int) and not isinstance(item, bool):
        # There is no item beyond, and databases refuse larger numbers.
        return max(min(item, LAST_ID), -1)
    return check_subject(item)


def state_of(state: object) -> State:
    """A state given by its name, or by FetchQ's number."""
    for known in State:
        if state in (known, known.name.lower()):
            return known
    names = ", ".join(known.name.lower() for known in State)
    raise InvalidOption(f"state is {shown(state)}: use {names}.", option="state")
