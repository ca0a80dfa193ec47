"""Module-level functions over the process default: ``headrace.commit(...)`` and friends.

Each raises ``NotConnected`` until ``headrace.connect`` was called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from headrace.api import Headrace
from headrace.api import default as default_client
from headrace.api import default_status as status
from headrace.core.commits import Entry, Headers

P = ParamSpec("P")
R = TypeVar("R")


def _forward(method: Callable[Concatenate[Headrace, P], R]) -> Callable[P, R]:
    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return method(default_client(), *args, **kwargs)

    return call


@overload
def commit(
    topic: str, body: Any, *, headers: Headers | None = None, key: str | None = None
) -> str: ...
@overload
def commit(
    topic: Sequence[Entry],
    body: None = None,
    *,
    headers: Headers | None = None,
    key: str | None = None,
) -> list[str]: ...
def commit(
    topic: str | Sequence[Entry],
    body: Any = None,
    *,
    headers: Headers | None = None,
    key: str | None = None,
) -> str | list[str]:
    """``Headrace.commit`` on the process default."""
    # A ParamSpec cannot carry overloads, so this one is written out.
    return default_client().commit(topic, body, headers=headers, key=key)


commit_many = _forward(Headrace.commit_many)
range = _forward(Headrace.range)
revrange = _forward(Headrace.revrange)
iterate = _forward(Headrace.iterate)
keep = _forward(Headrace.keep)
length = _forward(Headrace.length)
live = _forward(Headrace.live)
lock = _forward(Headrace.lock)
locks = _forward(Headrace.locks)
maintain = _forward(Headrace.maintain)
sink = _forward(Headrace.sink)
sinks = _forward(Headrace.sinks)
topic = _forward(Headrace.topic)
topic_info = _forward(Headrace.topic_info)
topics = _forward(Headrace.topics)
proc = _forward(Headrace.proc)
procs = _forward(Headrace.procs)
available_proc = _forward(Headrace.available_proc)
acquire = _forward(Headrace.acquire)
counters = _forward(Headrace.counters)
set_counter = _forward(Headrace.set_counter)
wait_for_procs = _forward(Headrace.wait_for_procs)
diagnose = _forward(Headrace.diagnose)
transaction = _forward(Headrace.transaction)
using = _forward(Headrace.using)
ids = _forward(Headrace.ids)
create = _forward(Headrace.create)
push = _forward(Headrace.push)
push_many = _forward(Headrace.push_many)
queue = _forward(Headrace.queue)
ref = _forward(Headrace.ref)
register_worker = _forward(Headrace.register_worker)
settle = _forward(Headrace.settle)
upsert = _forward(Headrace.upsert)
upsert_many = _forward(Headrace.upsert_many)
clients = _forward(Headrace.clients)
compute_stats = _forward(Headrace.compute_stats)
consolidate_stats = _forward(Headrace.consolidate_stats)
drop = _forward(Headrace.drop)
info = _forward(Headrace.info)
pause = _forward(Headrace.pause)
queue_defaults = _forward(Headrace.queue_defaults)
queues = _forward(Headrace.queues)
release_lock = _forward(Headrace.release_lock)
create_limit = _forward(Headrace.create_limit)
set_limit = _forward(Headrace.set_limit)
override_limit = _forward(Headrace.override_limit)
change_limit = _forward(Headrace.change_limit)
delete_limit = _forward(Headrace.delete_limit)
limit = _forward(Headrace.limit)
limits = _forward(Headrace.limits)
match_limits = _forward(Headrace.match_limits)
limit_usage = _forward(Headrace.limit_usage)
try_limit = _forward(Headrace.try_limit)
resume = _forward(Headrace.resume)
set_queue_defaults = _forward(Headrace.set_queue_defaults)
stats = _forward(Headrace.stats)
system_proc = _forward(Headrace.system_proc)
system_procs = _forward(Headrace.system_procs)
update = _forward(Headrace.update)
workers = _forward(Headrace.workers)
simple_queue = _forward(Headrace.simple_queue)
unique_queue = _forward(Headrace.unique_queue)
ack_queue = _forward(Headrace.ack_queue)
unique_ack_queue = _forward(Headrace.unique_ack_queue)
close = _forward(Headrace.close)

__all__ = [
    "ack_queue",
    "acquire",
    "available_proc",
    "change_limit",
    "clients",
    "close",
    "commit",
    "commit_many",
    "compute_stats",
    "consolidate_stats",
    "counters",
    "create",
    "create_limit",
    "delete_limit",
    "diagnose",
    "drop",
    "ids",
    "info",
    "iterate",
    "keep",
    "length",
    "limit",
    "limit_usage",
    "limits",
    "live",
    "lock",
    "locks",
    "maintain",
    "match_limits",
    "override_limit",
    "pause",
    "proc",
    "procs",
    "push",
    "push_many",
    "queue",
    "queue_defaults",
    "queues",
    "range",
    "ref",
    "register_worker",
    "release_lock",
    "resume",
    "revrange",
    "set_counter",
    "set_limit",
    "set_queue_defaults",
    "settle",
    "simple_queue",
    "sink",
    "sinks",
    "stats",
    "status",
    "system_proc",
    "system_procs",
    "topic",
    "topic_info",
    "topics",
    "transaction",
    "try_limit",
    "unique_ack_queue",
    "unique_queue",
    "update",
    "upsert",
    "upsert_many",
    "using",
    "wait_for_procs",
    "workers",
]
