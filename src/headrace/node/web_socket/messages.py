"""The messages of a socket: JSON, each with its type, and requests with an id to be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.contract.wire import Problem
from headrace.core.outcomes import OutcomeKind
from headrace.errors import InvalidInput
from headrace.node.http import MAX_BODY_BYTES
from headrace.node.resources.claims import CommitStep, PushStep, SettledView
from headrace.node.resources.item_views import ItemView
from headrace.node.resources.json_encoder import encode
from headrace.node.resources.pushes import PushBody, PushView
from headrace.node.resources.topics import CommitBody, RecordView
from headrace.node.resources.values import Seconds, Time

Id = int | str
"""What the client calls a request; of a subscription also its name."""
MAX_MESSAGE_BYTES = MAX_BODY_BYTES // 4
MAX_CREDIT = 10_000


class Message(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"
):
    """What a client sends."""

    id: Id


class Subscribe(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="subscribe"):
    """Send records of a topic, or claim items of a queue.

    ``credit`` is how many records may be sent, or how many items may be in flight. ``start`` and
    ``last_event_id`` say where in the topic, as for a stream of events; ``lease`` is for items.
    """

    topic: str | None = None
    queue: str | None = None
    credit: int
    start: str | None = None
    last_event_id: str | None = None
    lease: Seconds | None = None


class Credit(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="credit"):
    """So much more credit for a subscription."""

    subscription: Id
    credit: int


class Ack(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ack"):
    """Items of a subscription are complete."""

    subscription: Id
    items: Sequence[int]


class MessageOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of one item, with what is written in the same transaction."""

    item: int
    kind: OutcomeKind
    payload: Any = UNSET
    at: Time | None = None
    delay: Seconds | None = None
    error: str | None = None
    commit: Sequence[CommitStep] = ()
    push: Sequence[PushStep] = ()


class Settle(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="settle"):
    """What became of items of a subscription; all outcomes are written together."""

    subscription: Id
    outcomes: Sequence[MessageOutcome]


class PushItems(
    PushBody,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="push",
):
    """Push to a queue: the body of that request, and the queue."""

    id: Id
    queue: str
    key: str | None = None


class CommitRecords(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="commit"):
    """Commit records, all or none."""

    records: Sequence[CommitBody]
    key: str | None = None


class Unsubscribe(
    Message, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unsubscribe"
):
    """End a subscription; its items that are in flight are released."""

    subscription: Id


AnyRequest = Subscribe | Credit | Ack | Settle | PushItems | CommitRecords | Unsubscribe


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The answer to the request with that id."""

    id: Id


class Subscribed(Reply, frozen=True, kw_only=True, tag="subscribed"):
    """The subscription has begun; it has the name of its request."""


class Credited(Reply, frozen=True, kw_only=True, tag="credited"):
    """How much credit the subscription has now."""

    credit: int


class SettledItems(Reply, frozen=True, kw_only=True, tag="settled"):
    """The state of each item, in order; ``lost`` if its claim was no longer valid."""

    settled: Sequence[SettledView]


class PushReply(Reply, frozen=True, kw_only=True, tag="pushed"):
    """What became of each document, in order."""

    items: Sequence[PushView]


class CommitReply(Reply, frozen=True, kw_only=True, tag="committed"):
    """The ids of the records, in order."""

    ids: Sequence[str]


class Unsubscribed(Reply, frozen=True, kw_only=True, tag="unsubscribed"):
    """The subscription has ended: nothing of it follows."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="problem"):
    """Why a request was refused; ``id`` is null if it could not be read, or if all ends."""

    id: Id | None
    problem: Problem


class Items(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="items"):
    """Items that were claimed for a subscription. The node extends their leases."""

    subscription: Id
    items: Sequence[ItemView]


class Records(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="records"):
    """Records of a topic, in order. They are sent as they are stored, without this type."""

    subscription: Id
    records: Sequence[RecordView]


class LostItems(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="lost"):
    """Items whose claims no longer stand: others may have got them."""

    subscription: Id
    items: Sequence[int]


class SubscriptionProblem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Something about a subscription."""

    subscription: Id
    problem: Problem


class OvertakenSubscription(SubscriptionProblem, frozen=True, kw_only=True, tag="overtaken"):
    """Retention removed records before they were sent; the subscription goes on behind them."""


class EndedSubscription(SubscriptionProblem, frozen=True, kw_only=True, tag="ended"):
    """The subscription has ended, and why."""


AnyAnswer = (
    Subscribed
    | Credited
    | SettledItems
    | PushReply
    | CommitReply
    | Unsubscribed
    | Refused
    | Items
    | Records
    | LostItems
    | OvertakenSubscription
    | EndedSubscription
)
"""What a node sends."""


class _AnyId(msgspec.Struct):
    id: Id | None = None


_decode: Callable[[bytes | str], AnyRequest] = msgspec.json.Decoder(AnyRequest).decode
_decode_id = msgspec.json.Decoder(_AnyId).decode

__all__ = ["decoded", "encode"]


def decoded(text: bytes | str) -> AnyRequest:
    """A request, or the refusal that names the place that does not fit."""
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        place = place.rstrip("`") or "$"
        raise InvalidInput(f"the message does not fit at {place}: {message}.", path=place) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"the message is not JSON: {error}.", path="$") from None
    except RecursionError:
        raise InvalidInput("the message is nested too deeply: send less depth.", path="$") from None


def id_of(text: bytes | str) -> Id | None:
    """The id of a message that is no good otherwise, if it has one."""
    try:
        return _decode_id(text).id
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
