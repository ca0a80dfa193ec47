"""``/queues/{queue}``: claim items, say what became of them, and keep them claimed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from headrace.contract.items import Outcome, Settled
from headrace.core.channels import Order
from headrace.core.documents import Commit, Push
from headrace.core.outcomes import OutcomeKind, outcome
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.queues.channels import QUANTUM
from headrace.model.queues.settings import WhileActive
from headrace.model.times import duration_ms, moment_of
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.item_views import ItemView, view
from headrace.node.resources.key_values import query_of, typed
from headrace.node.resources.long_polls import LeftBehind, checked_wait, while_connected
from headrace.node.resources.pushes import DocumentBody
from headrace.node.resources.values import Seconds, Time


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many items to claim, for how long, and how long to wait for the first.

    With ``select`` only those of channels that a query selects, so many of each at a time
    (``quantum``), or in the ``order`` of the queue.
    """

    count: int = 1
    lease: Seconds | None = None
    wait: float = 0.0
    select: Any = None
    order: Order = "fair"
    quantum: int = QUANTUM


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """Claimed items, each with the token that proves its claim."""

    items: list[ItemView]


class CommitStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record that is committed with an outcome."""

    topic: str
    body: Any
    headers: dict[str, str] | None = None


class PushStep(DocumentBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document that is pushed with an outcome."""

    queue: str
    mode: Literal["push", "upsert"] = "push"
    while_active: WhileActive | None = None


class OutcomeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What became of one claimed item, with what is written in the same transaction."""

    item: int
    token: str
    kind: OutcomeKind
    payload: Any = UNSET
    at: Time | None = None
    delay: Seconds | None = None
    error: str | None = None
    commit: Sequence[CommitStep] = ()
    push: Sequence[PushStep] = ()


class SettleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outcomes that are written together."""

    outcomes: Sequence[OutcomeBody]


class SettledView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of an item after its outcome; ``lost`` if its claim was no longer valid."""

    item: int
    state: str
    due_at: datetime | None = None


class ClaimedBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claimed item, by its id and its token."""

    id: int
    token: str


class ExtendBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claimed items whose lease is to last so long from now."""

    items: Sequence[ClaimedBody]
    lease: Seconds


async def claim_items(call: ApiCall[ClaimBody, None]) -> ClaimView:
    """Claim items; a client that leaves while it waits gets none, and no attempt is counted."""
    body, queue = call.body, call.hr.queue(call["queue"])
    wait = checked_wait(body.wait)
    work = queue.claim(
        body.count,
        lease=body.lease,
        wait=wait,
        select=query_of(body.select),
        order=body.order,
        quantum=body.quantum,
    )
    try:
        items = await (while_connected(call, work) if wait else work)
    except LeftBehind as left:
        await queue.release(left.work.result())
        raise
    return ClaimView(items=[view(item) for item in items])


async def settle_items(call: ApiCall[SettleBody, None]) -> dict[str, list[SettledView]]:
    outcomes = [_outcome(one) for one in call.body.outcomes]
    settled = await call.run(call.requests.items.settle(call["queue"], outcomes))
    return {"settled": [settled_view(one) for one in settled]}


def _outcome(body: OutcomeBody) -> Outcome:
    commits = [Commit(step.topic, step.body, step.headers) for step in body.commit]
    pushes = [push_step(step) for step in body.push]
    return outcome(
        body.item,
        body.token,
        body.kind,
        payload=body.payload,
        at=body.at,
        delay=body.delay,
        error=body.error,
        then=[*commits, *pushes],
        max_body=DEFAULT_MAX_BODY,
    )


def push_step(step: PushStep) -> Push:
    """A document that is pushed with something else."""
    fields = msgspec.structs.asdict(step)
    if step.channel is not None:
        fields["channel"] = typed(step.channel, "channel")
    return Push(**fields)


def settled_view(settled: Settled) -> SettledView:
    """The state of a settled item as the API shows it."""
    due = None if settled.due is None else moment_of(settled.due)
    return SettledView(item=settled.item, state=settled.state, due_at=due)


async def extend_items(call: ApiCall[ExtendBody, None]) -> dict[str, list[int]]:
    """The ids of those whose claim still stands."""
    lease_ms = duration_ms("lease", call.body.lease, least=1)
    by_token: dict[str, list[int]] = {}
    for item in call.body.items:
        by_token.setdefault(item.token, []).append(item.id)
    extended: list[int] = []
    for token, ids in by_token.items():
        op = call.store.queues.extend(call["queue"], token, ids, lease_ms)
        extended += await call.store.arun(op)
    return {"extended": extended}


_QUEUE = "/queues/{queue}"

ENDPOINTS = [
    Endpoint(
        method="POST",
        path=f"{_QUEUE}/claim",
        summary="Claim items",
        handle=claim_items,
        body=ClaimBody,
        answer=ClaimView,
        example={"count": 10, "lease": 30, "wait": 20},
    ),
    Endpoint(
        method="POST",
        path=f"{_QUEUE}/settle",
        summary="Say what became of claimed items",
        handle=settle_items,
        body=SettleBody,
        answer=dict[str, list[SettledView]],
        keeps_work=True,
        example={"outcomes": [{"item": 1, "token": "…", "kind": "complete"}]},
    ),
    Endpoint(
        method="POST",
        path=f"{_QUEUE}/extend",
        summary="Extend the leases of claimed items",
        handle=extend_items,
        body=ExtendBody,
        answer=dict[str, list[int]],
        keeps_work=True,
        example={"items": [{"id": 1, "token": "…"}], "lease": 30},
    ),
]
