"""Willow's client without the network: requests, answers, and what is in them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from headrace import local_nodes
from headrace.contract.wire import NO_SUCH_PATH, Problem
from headrace.drivers.http import failures
from headrace.drivers.http.address import Address, parse_address
from headrace.drivers.http.messages import Answer
from headrace.errors import HeadraceError, InvalidOption, InvalidUrl, UnsupportedStore
from headrace.model.fields import shown
from headrace.model.query.key_values import KeyValues
from headrace.model.query.patterns import MatchQuery
from headrace.model.query.queries import Query
from headrace.model.times import Duration, duration_ms
from headrace.model.url import NODE_SCHEMES, parse_url

NS_PER_MS = 1_000_000
MAX_WAIT_SECONDS = 20.0
"""How long one request waits. A longer wait asks again."""
ANSWER_SECONDS = 30.0

Pairs = Mapping[str, Any]
"""Key-values; ``ANY`` for any value in rules."""
Selecting = Query | Mapping[str, Any] | None
"""A query, as ``headrace.where`` makes it or in Willow's JSON; None selects everything."""
Matching = MatchQuery | Mapping[str, Any]
"""Key-values whose rules are searched, or a whole match query."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue; ``max_items`` of -1 is no limit, 0 allows nothing."""

    name: str
    max_items: int


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, with how many of its items wait and how many are processed."""

    key_values: KeyValues
    enqueued_items: int
    processing_items: int


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """An override of a rule."""

    id: str
    group_by_key_values: dict[str, Any]
    limit: int


class Rule(Override, frozen=True, kw_only=True):
    """A rule of the limiter; its key-values are in Willow's JSON."""


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of the limiter."""

    key_values: KeyValues
    counters: int


class LockInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that somebody holds or waits for, and for how many seconds its holder has it."""

    id: str
    key_values: KeyValues
    held_or_waiting: int
    seconds_left: float


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What a dequeue brought."""

    id: str
    key_values: KeyValues
    data: bytes
    updateable: bool
    retry_attempts: int
    retry_position: str
    lease_ms: int


class HeldLock(msgspec.Struct, frozen=True, kw_only=True):
    """A lock as it was granted."""

    id: str
    session: str
    key_values: KeyValues
    lease_ms: int


def address_of(url: str) -> Address:
    """The node's address, with the token of the URL or, on this machine, of its user's file."""
    parts = parse_url(url)
    if parts.scheme not in NODE_SCHEMES:
        raise InvalidUrl(
            "Willow's API is served by a node: start one with headrace up, and give its URL, as in "
            "http://127.0.0.1:7070."
        )
    address = parse_address(parts)
    if address.token is not None:
        return address
    found = local_nodes.find_by_url(address.shown)
    return address if found is None else address._replace(token=found.token)


class Letters:
    """Writes requests to one address."""

    def __init__(self, address: Address) -> None:
        login = f"authorization: Bearer {address.token}\r\n" if address.token else ""
        self._prefix = address.prefix
        self._common = (
            f" HTTP/1.1\r\nhost: {address.authority}\r\n{login}content-type: application/json\r\n"
        )

    def write(self, method: str, path: str, body: object) -> bytes:
        """The bytes of a request; a body of None is none."""
        content = b"" if body is None else _encode(body)
        head = f"{method} {self._prefix}{path}{self._common}content-length: {len(content)}\r\n\r\n"
        return head.encode("latin-1") + content


def read(address: Address, answer: Answer) -> Any:
    """The JSON of an answer, or None; an error is raised."""
    if answer.status < 300:
        return _decode(answer.body) if answer.body else None
    raise _error(address, answer)


def _error(address: Address, answer: Answer) -> HeadraceError:
    problem = failures.problem_of(answer)
    if problem is not None:
        if problem.code != NO_SUCH_PATH:
            return failures.error_of(problem)
        return UnsupportedStore(
            f"the node at {address.shown} does not serve Willow's API: start it without "
            "--no-willow, and write its URL without a path."
        )
    try:
        told = _decode(answer.body)
        message, code = told["Message"], told["code"]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
        return failures.no_node(address, answer)
    return failures.error_of(
        Problem(type="", title="", status=answer.status, detail=message, code=code)
    )


def not_negative(wait: float) -> float:
    """A number of seconds to wait."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
        raise InvalidOption(
            f"wait is {shown(wait)}: use seconds, 0 for not at all, None for ever.", option="wait"
        )
    return wait


def segment(text: str) -> str:
    """A name as a segment of a path."""
    return quote(text, safe="")


def pairs_json(pairs: Pairs, name: str, *, allow_any: bool = False) -> dict[str, Any]:
    """Key-values in Willow's JSON."""
    return KeyValues.of(pairs, name, allow_any=allow_any).to_json()


def query_json(query: Selecting) -> dict[str, Any]:
    """A query in Willow's JSON, checked."""
    return (query if isinstance(query, Query) else Query.from_json(query)).to_json()


def match_json(match: Matching) -> dict[str, Any]:
    """A match query in Willow's JSON."""
    return (match if isinstance(match, MatchQuery) else MatchQuery.of(match)).to_json()


def spec(definition: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """An object of a request."""
    found = {"DBDefinition": definition, **({"Properties": properties} if properties else {})}
    return {"Spec": found}


def item_json(
    key_values: Pairs,
    data: bytes,
    *,
    updateable: bool,
    retry_attempts: int,
    retry_position: Literal["front", "back"],
    timeout: Duration,
) -> dict[str, Any]:
    """An item as it is enqueued."""
    if not isinstance(data, bytes) or not data:
        raise InvalidOption(f"data is {shown(data)}: give bytes, at least one.", option="data")
    return spec(
        {"KeyValues": pairs_json(key_values, "key_values")},
        Data=base64.b64encode(data).decode(),
        Updateable=updateable,
        RetryAttempts=retry_attempts,
        RetryPosition=retry_position,
        TimeoutDuration=duration_ms("timeout", timeout, least=1) * NS_PER_MS,
    )


def queue_of(given: Any) -> Queue:
    """A queue from its JSON."""
    about, properties = _parts(given)
    return Queue(name=about["Name"], max_items=properties["MaxItems"])


def channel_of(given: Any) -> Channel:
    """A channel from its JSON."""
    state = given["State"]
    return Channel(
        key_values=_pairs(given),
        enqueued_items=state["EnqueuedItems"],
        processing_items=state["ProcessingItems"],
    )


def rule_of(given: Any) -> Rule:
    """A rule from its JSON."""
    return Rule(**_limited(given))


def override_of(given: Any) -> Override:
    """An override from its JSON."""
    return Override(**_limited(given))


def counter_of(given: Any) -> Counter:
    """A counter from its JSON."""
    return Counter(key_values=_pairs(given), counters=_parts(given)[1]["Counters"])


def lock_info_of(given: Any) -> LockInfo:
    """A lock of a list from its JSON."""
    state = given["State"]
    return LockInfo(
        id=state["LockID"],
        key_values=_pairs(given),
        held_or_waiting=state["LocksHeldOrWaiting"],
        seconds_left=state["TimeTillExipre"] / NS_PER_MS / 1000,
    )


def delivery_of(given: Any) -> Delivery:
    """A delivery from its JSON."""
    _, properties = _parts(given)
    return Delivery(
        id=given["State"]["ID"],
        key_values=_pairs(given),
        data=base64.b64decode(properties["Data"]),
        updateable=properties["Updateable"],
        retry_attempts=properties["RetryAttempts"],
        retry_position=properties["RetryPosition"],
        lease_ms=properties["TimeoutDuration"] // NS_PER_MS,
    )


def held_lock_of(given: Any) -> HeldLock:
    """A lock that was granted, from its JSON."""
    state = given["State"]
    return HeldLock(
        id=state["LockID"],
        session=state["SessionID"],
        key_values=_pairs(given),
        lease_ms=_parts(given)[1]["Timeout"] // NS_PER_MS,
    )


def each(read_one: Any, given: Iterable[Any]) -> list[Any]:
    """All objects of a list."""
    return [read_one(one) for one in given]


def _parts(given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    found = given["Spec"]
    return found["DBDefinition"], found.get("Properties", {})


def _pairs(given: Any) -> KeyValues:
    return KeyValues.from_json(_parts(given)[0]["KeyValues"])


def _limited(given: Any) -> dict[str, Any]:
    about, properties = _parts(given)
    return {
        "id": given["State"]["ID"],
        "group_by_key_values": about["GroupByKeyValues"],
        "limit": properties["Limit"],
    }
