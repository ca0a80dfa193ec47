"""FetchQ's calls in Python, with a global client for the whole process.

>>> from headrace.compat import fetchq
>>> fetchq.connect({"driver": {"type": "sqlite", "path": "flow.db"}})
>>> fetchq.push("mail", [{"subject": "ann", "payload": {"n": 1}}, {"subject": "bob"}])
Result(pushed=2, skipped=0)
"""

from headrace.compat._sync.fetchq import FetchQ, QueueRef
from headrace.compat.fetchq_values import (
    FetchQCreateError,
    FetchQError,
    FetchQPushError,
    FetchQRefError,
    FetchQRegisterWorkerError,
    FetchQUpsertError,
    Result,
    UpsertResult,
)

_client = FetchQ()

connect = _client.connect
status = _client.status
close = _client.close
push = _client.push
upsert = _client.upsert
register_worker = _client.register_worker
create = _client.create
ref = _client.ref
drop = _client.drop
update = _client.update
stats = _client.stats
compute_stats = _client.compute_stats
consolidate_stats = _client.consolidate_stats
info = _client.info

__all__ = [
    "FetchQ",
    "FetchQCreateError",
    "FetchQError",
    "FetchQPushError",
    "FetchQRefError",
    "FetchQRegisterWorkerError",
    "FetchQUpsertError",
    "QueueRef",
    "Result",
    "UpsertResult",
    "close",
    "compute_stats",
    "connect",
    "consolidate_stats",
    "create",
    "drop",
    "info",
    "push",
    "ref",
    "register_worker",
    "stats",
    "status",
    "update",
    "upsert",
]
