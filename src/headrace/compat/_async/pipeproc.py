"""PipeProc's client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from headrace._async.headrace import AsyncHeadrace
from headrace.client._async.procs import AsyncClaim
from headrace.compat._async.pipeproc_calls import answers
from headrace.compat._async.pipeproc_live import AsyncLiveProc
from headrace.compat._async.pipeproc_node import AsyncPipeProcNode
from headrace.compat.pipeproc_processors import absolute_reference, pipeline_processor
from headrace.compat.pipeproc_values import (
    AckCommitResult,
    AvailableProc,
    AvailableProcOptions,
    Callback,
    CommitLog,
    ConnectOptions,
    LiveProcOptions,
    Log,
    ProcOptions,
    ProcRecord,
    RangeOptions,
    SpawnOptions,
    SystemProcOptions,
    available_calls,
    connect_options,
    entries_of,
    id_or_range,
    log_of,
    logs_of,
    no_claim,
    no_node,
    node_options,
    pipeproc_error,
    proc_call,
    proc_settings,
    read_options,
    record_of,
)
from headrace.compat.pipeproc_worker_messages import RunRequest
from headrace.errors import ClaimLost, HeadraceError, InvalidOption
from headrace.model.error_messages import nothing_claimed

Records = list[ProcRecord]
Logs = list[Log]
Ids = list[str]


class AsyncPipeProcClient:
    """PipeProc's client, over a store.

    Options are a mapping with PipeProc's own keys, or keywords in snake_case. Times are
    milliseconds. Every error is a ``PipeProcError``. With a ``callback`` a method calls
    ``callback(err, result)`` and returns None.
    """

    def __init__(self) -> None:
        self._node: AsyncPipeProcNode | None = None
        self._claims: dict[str, AsyncClaim] = {}
        self._lives: dict[str, AsyncLiveProc] = {}

    @answers
    async def spawn(
        self,
        options: SpawnOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> str:
        """Start a node in a process of its own; returns ``spawned_and_connected``.

        ``memory`` keeps its store in memory; else ``location`` is a SQLite file,
        ``./pipeproc_data`` by default, or the URL of a store. ``namespace``, ``tcp`` or ``socket``
        say where it listens. ``workers`` processes, 1 by default, run system procs whose
        processor is named, ``workerConcurrency`` at a time in each; a process is started again
        after ``workerRestartAfter`` logs. With ``workers=0`` system procs are stored but not run.
        ``gc`` says when old logs are collected, False for never: both times are 30 seconds by
        default, except for a URL, whose store stays as it is unless ``gc`` is given.
        """
        wanted = node_options(read_options(SpawnOptions, options, keywords))
        if self._is_connected():
            return "node_already_active"
        await self._leave()
        self._node = await AsyncPipeProcNode.spawn(wanted)
        return "spawned_and_connected"

    @answers
    async def connect(
        self,
        options: ConnectOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> str:
        """Connect to a node of any process; returns ``connected``.

        ``namespace``, ``tcp`` or ``socket`` say which. With a ``location`` the store there is
        opened in this process, without a node. ``no_active_node`` if there is none.
        """
        wanted = connect_options(read_options(ConnectOptions, options, keywords))
        if self._is_connected():
            return "already_connected"
        await self._leave()
        self._node = await AsyncPipeProcNode.connect(wanted)
        return "connected"

    @answers
    async def shutdown(self, callback: Callback | None = None) -> str:
        """Stop what ``spawn`` started (``closed``), or only leave it (``disconnected``)."""
        node, was_connected = self._node, self._is_connected()
        await self._leave()
        if node is None or not was_connected:
            raise no_node()
        return "disconnected" if node.spawned is None else "closed"

    async def _leave(self) -> None:
        """Release everything of the node, which may have ended meanwhile."""
        for live in list(self._lives.values()):
            await live._leave()
        node, self._node = self._node, None
        self._claims.clear()
        if node is not None:
            await node.close()

    @overload
    async def commit(self, log: CommitLog, callback: Callback | None = None) -> str: ...
    @overload
    async def commit(self, log: Sequence[CommitLog], callback: Callback | None = None) -> Ids: ...
    @answers
    async def commit(
        self, log: CommitLog | Sequence[CommitLog], callback: Callback | None = None
    ) -> str | Ids:
        """Commit a log, or several in one transaction; returns the id, or a list of ids."""
        entries, is_list = entries_of(log)
        ids = await self._hr.commit(entries)
        return ids if is_list else ids[0]

    @answers
    async def range(
        self,
        topic: str,
        options: RangeOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> Logs:
        """Logs of a topic in order; ends are ids, timestamps or ``:seq``."""
        return await self._range(topic, read_options(RangeOptions, options, keywords), False)

    @answers
    async def revrange(
        self,
        topic: str,
        options: RangeOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> Logs:
        """``range`` backwards: ``start`` is the high end."""
        return await self._range(topic, read_options(RangeOptions, options, keywords), True)

    async def _range(self, topic: str, options: dict[str, Any], is_reverse: bool) -> Logs:
        records = await self._hr.range(topic, **options, reverse=is_reverse)
        return [log_of(record) for record in records]

    @answers
    async def length(self, topic: str, callback: Callback | None = None) -> int:
        """How many logs a topic has."""
        return await self._hr.topic(topic).length()

    @answers
    async def proc(
        self,
        topic: str,
        options: ProcOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> Log | Logs | None:
        """Fetch the next log of a proc, which is made if there is none; None if nothing is new.

        With a ``count`` above 1, a list of logs. None also until they are acked or reclaimed.
        """
        wanted = proc_call(read_options(ProcOptions, options, keywords))
        proc = await self._hr.procs.create(
            wanted.name, topic, offset=wanted.offset, **wanted.settings
        )
        claim = await proc.claim(wanted.count)
        if claim is None:
            return None
        self._claims[wanted.name] = claim
        return logs_of(claim, wanted.count)

    @answers
    async def available_proc(
        self, procs: Iterable[AvailableProcOptions], callback: Callback | None = None
    ) -> AvailableProc | None:
        """Fetch for whichever of the procs has a new log; those that are missing are made."""
        calls = available_calls(procs)
        hr = self._hr
        if not calls:
            return None
        for name, (topic, wanted) in calls.items():
            await hr.procs.create(name, topic, offset=wanted.offset, **wanted.settings)
        claim = await hr.procs.claim_any(list(calls), min(c.count for _, c in calls.values()))
        if claim is None:
            return None
        self._claims[claim.proc_name] = claim
        count = calls[claim.proc_name][1].count
        return {"procName": claim.proc_name, "log": logs_of(claim, count)}

    @answers
    async def ack(self, proc_name: str, callback: Callback | None = None) -> str:
        """Ack what this client fetched last from the proc: returns its id, or ``first..last``."""
        acked = await (await self._claim(proc_name)).ack()
        self._settled(proc_name)
        return id_or_range(acked)

    @answers
    async def ack_commit(
        self,
        proc_name: str,
        log: CommitLog | Sequence[CommitLog],
        callback: Callback | None = None,
    ) -> AckCommitResult:
        """``ack`` and ``commit`` in one transaction: both or neither."""
        entries, is_list = entries_of(log)
        acked = await (await self._claim(proc_name)).ack_commit(entries)
        self._settled(proc_name)
        assert acked.ids is not None
        return {
            "ackedLogId": id_or_range(acked.range),
            "id": acked.ids if is_list else acked.ids[0],
        }

    @answers
    async def reclaim(self, proc_name: str, callback: Callback | None = None) -> str:
        """Give back what this client fetched last from the proc, to fetch it again.

        Returns the range the proc falls back to, ``""`` if nothing was acked.
        """
        claim = await self._claim(proc_name)
        try:
            fallback = await claim.nack()
        except ClaimLost as error:
            raise (nothing_claimed(proc_name) if claim.is_settled else error) from None
        self._settled(proc_name)
        return fallback

    @answers
    async def inspect_proc(self, proc_name: str, callback: Callback | None = None) -> ProcRecord:
        """What is known of a proc."""
        return record_of(await self._hr.proc(proc_name).info())

    @answers
    async def destroy_proc(self, proc_name: str, callback: Callback | None = None) -> ProcRecord:
        """Remove a proc; returns what it was. A system proc of that name ends."""
        return record_of(await self._hr.proc(proc_name).delete())

    @answers
    async def disable_proc(self, proc_name: str, callback: Callback | None = None) -> ProcRecord:
        """Let the proc fetch nothing until it is resumed."""
        return record_of(await self._hr.proc(proc_name).disable())

    @answers
    async def resume_proc(self, proc_name: str, callback: Callback | None = None) -> ProcRecord:
        """Let a disabled proc fetch again."""
        return record_of(await self._hr.proc(proc_name).resume())

    @answers
    async def system_proc(
        self,
        options: SystemProcOptions | None = None,
        callback: Callback | None = None,
        **keywords: Any,
    ) -> ProcRecord | Records:
        """Run a processor for each log of ``from``, and commit its results to ``to``.

        It starts immediately. A processor that is named by the path of a Python file, or as
        ``module:function``, runs on the worker processes of the node if this client has spawned it;
        otherwise, and if it is a function, it runs in the calling process. It is called with
        ``(log, done)`` or ``(log)``: see ``pipeproc_processors``. Returns the record of its proc;
        if ``from`` is a list, those of its procs ``<name>__<topic>``.
        """
        wanted = read_options(SystemProcOptions, options, keywords)
        name: Any = wanted.get("name")
        source, to = wanted.get("from", []), wanted.get("to") or None
        settings = proc_settings(wanted)
        defined = {
            "source": source,
            "to": to,
            "offset": wanted.get("offset"),
            "count": wanted.get("count") or 1,
            "timeout": settings.get("lease"),
            **settings,
        }
        given = wanted.get("processor")
        if isinstance(given, str) and self._node is not None and self._node.workers is not None:
            node = self._open_node()
            pipeline = node.hr.pipeline(name)
            reference = absolute_reference(given)
            await node.run_on_workers(RunRequest(name=name, processor=reference, options=defined))
        else:
            processor = pipeline_processor(given, has_targets=to is not None)
            node = self._open_node()
            pipeline = await node.hr.pipelines.create(name, processor=processor, **defined)
            await node.drop_from_workers(pipeline.name)
            if node.has_workers:
                running = node.pipelines.get(pipeline.name)
                if running is not None:
                    await running.stop()
                node.pipelines[pipeline.name] = await pipeline.start(engine="inline")
        records = {proc.topic: record_of(proc) for proc in (await pipeline.info()).procs}
        return records[source] if isinstance(source, str) else [records[t] for t in source]

    def live_proc(self, options: LiveProcOptions | None = None, **keywords: Any) -> AsyncLiveProc:
        """A proc that calls back with logs as they arrive, in this process."""
        try:
            wanted = read_options(LiveProcOptions, options, keywords)
            if "topic" not in wanted:
                raise InvalidOption("the live proc has no topic: name one.", option="topic")
            live = self._hr.live(
                wanted["topic"],
                mode="live" if wanted.get("mode") == "live" else "all",
                count=wanted.get("count") or 1,
            )
        except HeadraceError as error:
            raise pipeproc_error(error) from error
        return AsyncLiveProc(self, live)

    @answers
    async def wait_for_procs(
        self, names: str | Iterable[str] | None = None, callback: Callback | None = None
    ) -> None:
        """Wait until active procs (these, or all) have acked all that is committed."""
        await self._hr.procs.wait_idle(names)

    @property
    def _hr(self) -> AsyncHeadrace:
        return self._open_node().hr

    def _is_connected(self) -> bool:
        return self._node is not None and self._node.is_open

    def _open_node(self) -> AsyncPipeProcNode:
        if self._node is None or not self._node.is_open:
            raise no_node()
        return self._node

    async def _claim(self, proc_name: str) -> AsyncClaim:
        proc = self._hr.proc(proc_name)
        claim = self._claims.get(proc_name)
        if claim is None:
            await proc.info()  # an unknown proc is the first error
            raise no_claim(proc_name)
        return claim

    def _settled(self, proc_name: str) -> None:
        live = self._lives.get(proc_name)
        if live is not None:
            live._is_settled.set()
