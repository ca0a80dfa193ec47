"""The classes of async code under their short names: ``aio.Queue`` is ``AsyncQueue``; ``spawn``.

>>> from headrace import aio
>>> async def drain(queue: aio.Queue) -> None: ...
"""

from headrace._async.headrace import AsyncHeadrace as Headrace
from headrace.client._async.counters import AsyncSlots as Slots
from headrace.client._async.dead_letters import AsyncDeadLetters as DeadLetters
from headrace.client._async.follower import AsyncFollower as Follower
from headrace.client._async.items import AsyncClaimedItem as ClaimedItem
from headrace.client._async.live import AsyncLive as Live
from headrace.client._async.locks import AsyncLock as Lock
from headrace.client._async.procs import AsyncClaim as Claim
from headrace.client._async.procs import AsyncProc as Proc
from headrace.client._async.queue import AsyncQueue as Queue
from headrace.client._async.replay import AsyncReplay as Replay
from headrace.client._async.topics import AsyncTopic as Topic
from headrace.client._async.transactions import AsyncTransaction as Transaction
from headrace.node.spawn import AsyncNode as Node
from headrace.node.spawn import aspawn as spawn
from headrace.pipelines._async.pipeline import AsyncPipeline as Pipeline
from headrace.worker._async.worker import AsyncWorker as Worker

__all__ = [
    "Claim",
    "ClaimedItem",
    "DeadLetters",
    "Follower",
    "Headrace",
    "Live",
    "Lock",
    "Node",
    "Pipeline",
    "Proc",
    "Queue",
    "Replay",
    "Slots",
    "Topic",
    "Transaction",
    "Worker",
    "spawn",
]
