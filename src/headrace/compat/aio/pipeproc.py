"""PipeProc's client for async code.

>>> from headrace.compat.aio import pipeproc
>>> await pipeproc.spawn({"memory": True})
'spawned_and_connected'

See ``headrace.compat.pipeproc``, which is the same without ``await``.
"""

from headrace.compat._async.pipeproc import AsyncPipeProcClient as PipeProcClient
from headrace.compat._async.pipeproc_live import AsyncLiveProc as LiveProc
from headrace.compat.pipeproc_values import (
    AckCommitResult,
    AvailableProc,
    AvailableProcOptions,
    CommitLog,
    ConnectOptions,
    GcOptions,
    LiveProcOptions,
    Log,
    PipeProcError,
    ProcOptions,
    ProcRecord,
    RangeOptions,
    SpawnOptions,
    SystemProcOptions,
)

pipe_proc_client = PipeProcClient()

spawn = pipe_proc_client.spawn
connect = pipe_proc_client.connect
shutdown = pipe_proc_client.shutdown
commit = pipe_proc_client.commit
range = pipe_proc_client.range
revrange = pipe_proc_client.revrange
length = pipe_proc_client.length
proc = pipe_proc_client.proc
ack = pipe_proc_client.ack
ack_commit = pipe_proc_client.ack_commit
reclaim = pipe_proc_client.reclaim
inspect_proc = pipe_proc_client.inspect_proc
destroy_proc = pipe_proc_client.destroy_proc
disable_proc = pipe_proc_client.disable_proc
resume_proc = pipe_proc_client.resume_proc
system_proc = pipe_proc_client.system_proc
live_proc = pipe_proc_client.live_proc
available_proc = pipe_proc_client.available_proc
wait_for_procs = pipe_proc_client.wait_for_procs

__all__ = [
    "AckCommitResult",
    "AvailableProc",
    "AvailableProcOptions",
    "CommitLog",
    "ConnectOptions",
    "GcOptions",
    "LiveProc",
    "LiveProcOptions",
    "Log",
    "PipeProcClient",
    "PipeProcError",
    "ProcOptions",
    "ProcRecord",
    "RangeOptions",
    "SpawnOptions",
    "SystemProcOptions",
    "ack",
    "ack_commit",
    "available_proc",
    "commit",
    "connect",
    "destroy_proc",
    "disable_proc",
    "inspect_proc",
    "length",
    "live_proc",
    "pipe_proc_client",
    "proc",
    "range",
    "reclaim",
    "resume_proc",
    "revrange",
    "shutdown",
    "spawn",
    "system_proc",
    "wait_for_procs",
]
