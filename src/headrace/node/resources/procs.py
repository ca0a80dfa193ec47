"""``/procs``: durable readers of topics."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headrace.client._async.procs import AsyncClaim
from headrace.client.waiters import MAX_POLL_SECONDS, Deadline
from headrace.contract.items import PushCall
from headrace.contract.values import AckAnswer
from headrace.core.documents import document
from headrace.core.pushes import push_call
from headrace.core.requests.procs import ClaimedBatch, changes
from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.topics.procs import Lag, ProcInfo, Strategy
from headrace.node.resources.claims import PushStep, push_step
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.long_polls import LeftBehind, checked_wait, while_connected
from headrace.node.resources.pages import ListPage, PageQuery, part
from headrace.node.resources.topics import CommitBody, RecordView, record_view, records_at
from headrace.node.resources.values import Seconds

LEFT = "the client left before it had the records"


class NewProc(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proc: the topic it reads and where it begins."""

    topic: str
    offset: str = ">"
    max_attempts: int | UnsetType = UNSET
    lease: Seconds | UnsetType | None = UNSET
    on_exhausted: Strategy | UnsetType = UNSET


class ProcChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes of a proc."""

    max_attempts: int | UnsetType = UNSET
    lease: Seconds | UnsetType | None = UNSET
    on_exhausted: Strategy | UnsetType = UNSET


class ProcClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many records to claim, and for how many seconds to wait for the first."""

    count: int = 1
    wait: float = 0.0


class AnyClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many records to claim, for one of some procs."""

    procs: Sequence[str]
    count: int = 1


class AckBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claim that is done, and what is written in the same transaction: records, or items."""

    token: str
    commit: Sequence[CommitBody] = ()
    push: Sequence[PushStep] = ()


class NackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claim that is given back, and why."""

    token: str
    error: str | None = None


class Reclaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a claim of someone else is given back."""

    error: str | None = None


class TokenBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim."""

    token: str


class SeekBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a proc goes on."""

    offset: str


class ProcQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which procs to list: those of a topic, or all."""

    topic: str | None = None


class ProcPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some procs, by name."""

    procs: list[ProcInfo]
    next: str | None


class ProcClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """Claimed records; without any there is no token. ``proc`` is the one that has claimed them."""

    proc: str | None = None
    records: list[RecordView]
    token: str | None = None
    lease_until: datetime | None = None


class AckView(msgspec.Struct, frozen=True, kw_only=True):
    """The range of acked records, and the ids of records that were committed with the ack."""

    acked: str
    ids: list[str] = []


async def list_procs(call: ApiCall[None, ProcQuery]) -> ListPage:
    found = await call.hr.procs.list(topic=call.query.topic)
    return part("procs", found, call.query, lambda info: info.name)


async def put_proc(call: ApiCall[NewProc, None]) -> ProcInfo:
    body = call.body
    wanted = changes(body.max_attempts, body.lease, body.on_exhausted)
    # The client would read what it has created: that may need another scope.
    requests = call.requests.procs
    return await call.run(requests.create(call["proc"], body.topic, body.offset, wanted))


async def get_proc(call: ApiCall[None, None]) -> ProcInfo:
    return await call.hr.proc(call["proc"]).info()


async def update_proc(call: ApiCall[ProcChangeBody, None]) -> ProcInfo:
    body = call.body
    return await call.hr.proc(call["proc"]).update(
        max_attempts=body.max_attempts, lease=body.lease, on_exhausted=body.on_exhausted
    )


async def delete_proc(call: ApiCall[None, None]) -> ProcInfo:
    return await call.hr.proc(call["proc"]).delete()


async def claim_records(call: ApiCall[ProcClaimBody, None]) -> ProcClaimView:
    """Claim records; what is claimed for a client that has left is given back."""
    body, proc = call.body, call.hr.proc(call["proc"])
    wait = checked_wait(body.wait)
    if not wait:
        return _claim_view(await proc.claim(body.count))
    try:
        claim = await while_connected(call, _claim_in_time(call, wait))
    except LeftBehind as left:
        if (claim := left.work.result()) is not None:
            await claim.nack(error=LEFT)
        raise
    return _claim_view(claim)


async def _claim_in_time(call: ApiCall[ProcClaimBody, None], wait: float) -> AsyncClaim | None:
    """The first claim that has records within ``wait`` seconds."""
    proc, deadline = call.hr.proc(call["proc"]), Deadline(wait)
    topic = (await proc.info()).topic
    with closing(call.store.waiter(topic)) as waiter:
        while (claim := await proc.claim(call.body.count)) is None and not deadline.is_over:
            # That another claim of the proc ends is not announced.
            await waiter.await_hint(deadline.at_most(MAX_POLL_SECONDS))
    return claim


async def claim_any_records(call: ApiCall[AnyClaimBody, None]) -> ProcClaimView:
    return _claim_view(await call.hr.procs.claim_any(call.body.procs, call.body.count))


def _claim_view(claim: AsyncClaim | None) -> ProcClaimView:
    if claim is None:
        return ProcClaimView(records=[])
    records = [record_view(record) for record in claim]
    return ProcClaimView(
        proc=claim.proc_name, records=records, token=claim.token, lease_until=claim.deadline
    )


async def ack_records(call: ApiCall[AckBody, None]) -> AckView:
    body, claim = call.body, _claim(call, call.body.token)
    if body.commit and body.push:
        raise InvalidOption(
            "an ack commits records or pushes items: give commit or push, and the other with the "
            "next ack, or as the outcome of an item.",
            option="push",
        )
    if body.push:
        return await _ack_push(call)
    if not body.commit:
        return AckView(acked=await claim.ack())
    entries = [(one.topic, one.body, one.headers) for one in body.commit]
    with records_at("$.commit[{}]"):
        result = await claim.ack_commit(entries)
    return AckView(acked=result.range, ids=result.ids or [])


async def _ack_push(call: ApiCall[AckBody, None]) -> AckView:
    """Ack and push in one transaction: both or neither."""
    calls = [_push_of(step) for step in call.body.push]
    op = call.store.procs.ack_push(call["proc"], call.body.token, calls)
    answer: AckAnswer = await call.store.arun(op)
    return AckView(acked=answer.range)


def _push_of(step: PushStep) -> PushCall:
    push = push_step(step)
    return push_call(
        push.queue,
        (document(push, max_body=DEFAULT_MAX_BODY),),
        mode=push.mode,
        while_active=push.while_active,
    )


async def reclaim_records(call: ApiCall[Reclaim, None]) -> dict[str, str]:
    return {"released": await call.hr.proc(call["proc"]).nack(error=call.body.error)}


async def nack_records(call: ApiCall[NackBody, None]) -> dict[str, str]:
    return {"released": await _claim(call, call.body.token).nack(error=call.body.error)}


async def extend_claim(call: ApiCall[TokenBody, None]) -> dict[str, datetime | None]:
    return {"lease_until": await _claim(call, call.body.token).extend()}


async def seek_proc(call: ApiCall[SeekBody, None]) -> ProcInfo:
    return await call.hr.proc(call["proc"]).seek(call.body.offset)


async def disable_proc(call: ApiCall[None, None]) -> ProcInfo:
    return await call.hr.proc(call["proc"]).disable()


async def resume_proc(call: ApiCall[None, None]) -> ProcInfo:
    return await call.hr.proc(call["proc"]).resume()


async def get_proc_lag(call: ApiCall[None, None]) -> Lag:
    return await call.hr.proc(call["proc"]).lag()


def _claim(call: ApiCall[Any, Any], token: str) -> AsyncClaim:
    if not token:
        raise InvalidOption("token is empty: give that of the claim.", option="token")
    proc = call.hr.proc(call["proc"])
    return AsyncClaim(proc, ClaimedBatch(proc.name, token, [], None))


_PROC = "/procs/{proc}"


def _verb(verb: str, summary: str, handle: Any, **more: Any) -> Endpoint:
    return Endpoint(method="POST", path=f"{_PROC}/{verb}", summary=summary, handle=handle, **more)


ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/procs",
        summary="List procs",
        handle=list_procs,
        query=ProcQuery,
        answer=ProcPage,
    ),
    Endpoint(
        method="POST",
        path="/procs/claim-any",
        summary="Claim records for one of some procs",
        handle=claim_any_records,
        body=AnyClaimBody,
        answer=ProcClaimView,
        example={"procs": ["mailer"], "count": 100},
    ),
    Endpoint(
        method="PUT",
        path=_PROC,
        summary="Create a proc, or find it",
        handle=put_proc,
        body=NewProc,
        answer=ProcInfo,
        example={"topic": "orders", "offset": ">"},
    ),
    Endpoint(method="GET", path=_PROC, summary="Read a proc", handle=get_proc, answer=ProcInfo),
    Endpoint(
        method="PATCH",
        path=_PROC,
        summary="Change a proc",
        handle=update_proc,
        body=ProcChangeBody,
        answer=ProcInfo,
        example={"max_attempts": 3},
    ),
    Endpoint(
        method="DELETE", path=_PROC, summary="Delete a proc", handle=delete_proc, answer=ProcInfo
    ),
    _verb(
        "claim",
        "Claim records",
        claim_records,
        body=ProcClaimBody,
        answer=ProcClaimView,
        example={"count": 100, "wait": 5},
    ),
    _verb(
        "ack",
        "Ack claimed records, and commit others with them",
        ack_records,
        body=AckBody,
        answer=AckView,
        keeps_work=True,
        example={"token": "…", "commit": [{"topic": "sent", "body": {"order": 17}}]},
    ),
    _verb(
        "nack",
        "Give claimed records back",
        nack_records,
        body=NackBody,
        answer=dict[str, str],
        keeps_work=True,
        example={"token": "…", "error": "the mail server is away"},
    ),
    _verb(
        "reclaim",
        "Give back the claim of a reader that is gone",
        reclaim_records,
        body=Reclaim,
        answer=dict[str, str],
        example={"error": "its machine is gone"},
    ),
    _verb(
        "extend",
        "Extend the lease of a claim",
        extend_claim,
        body=TokenBody,
        answer=dict[str, datetime | None],
        keeps_work=True,
        example={"token": "…"},
    ),
    _verb(
        "seek",
        "Move a proc",
        seek_proc,
        body=SeekBody,
        answer=ProcInfo,
        example={"offset": ":0"},
    ),
    _verb("disable", "Stop claims of a proc", disable_proc, answer=ProcInfo),
    _verb("resume", "Allow claims of a proc again", resume_proc, answer=ProcInfo),
    Endpoint(
        method="GET",
        path=f"{_PROC}/lag",
        summary="How far a proc is behind",
        handle=get_proc_lag,
        answer=Lag,
    ),
]
