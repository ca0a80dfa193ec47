"""The node that a PipeProc client works with: one that it has spawned, or one that it found."""

from __future__ import annotations

from headrace import local_nodes
from headrace._async.headrace import AsyncHeadrace, aconnect
from headrace.compat.pipeproc_values import ConnectPlan, NodePlan, no_node_in
from headrace.compat.pipeproc_worker_messages import RunRequest
from headrace.compat.pipeproc_workers import PipeProcWorkers

# ASYNC
from headrace.contract.shield import finish
from headrace.contract.threads import in_thread

# END
from headrace.node.spawn import AsyncNode, aspawn
from headrace.pipelines._async.pipeline import AsyncPipeline


class AsyncPipeProcNode:
    """A connection to a node, with the system procs that run in this process.

    ``spawned`` is the node if this client has spawned it, ``workers`` are its worker processes, and
    ``namespace`` is its name if it was found by that.
    """

    def __init__(
        self,
        hr: AsyncHeadrace,
        *,
        has_workers: bool = True,
        workers: PipeProcWorkers | None = None,
        spawned: AsyncNode | None = None,
        namespace: str | None = None,
    ) -> None:
        self.hr = hr
        self.has_workers = has_workers
        self.workers = workers
        self.spawned = spawned
        self.pipelines: dict[str, AsyncPipeline] = {}
        self._namespace = namespace

    @classmethod
    async def spawn(cls, plan: NodePlan) -> AsyncPipeProcNode:
        """Start a node, and connect to it."""
        spawned = await aspawn(plan.url, **plan.arguments)
        workers = None
        if plan.workers:
            workers = PipeProcWorkers(
                plan.url,
                spawned.client_url,
                processes=plan.workers,
                concurrency=plan.worker_concurrency,
                restart_after=plan.worker_restart_after,
            )
        return cls(spawned.client, has_workers=plan.workers > 0, workers=workers, spawned=spawned)

    @classmethod
    async def connect(cls, plan: ConnectPlan) -> AsyncPipeProcNode:
        """Connect to a node that runs."""
        url = plan.url
        if url is None:
            assert plan.namespace is not None
            record = local_nodes.find(plan.namespace)
            if record is None:
                raise no_node_in(plan.namespace)
            url = record.url
        return cls(await aconnect(url, **plan.options), namespace=plan.namespace)

    @property
    def is_open(self) -> bool:
        """Whether calls may succeed. A node that has ended is noticed immediately."""
        if self.hr.status == 0:
            return False
        if self.spawned is not None:
            return self.spawned.is_running
        return self._namespace is None or local_nodes.find(self._namespace) is not None

    async def run_on_workers(self, request: RunRequest) -> None:
        """Run a system proc on the worker processes, and no longer in this process."""
        assert self.workers is not None
        # ASYNC
        await in_thread(self.workers.run, request)
        # SYNC
        # self.workers.run(request)
        # END
        running = self.pipelines.pop(request.name, None)
        if running is not None:
            await running.stop()

    async def drop_from_workers(self, name: str) -> None:
        """Stop a system proc on the worker processes, if they run it."""
        if self.workers is not None:
            # ASYNC
            await in_thread(self.workers.drop, name)
            # SYNC
            # self.workers.drop(name)
            # END

    async def close(self) -> None:
        """Stop system procs, leave the node, and stop it if this client has spawned it."""
        try:
            if self.workers is not None:
                # ASYNC
                await finish(in_thread(self.workers.stop))
                # SYNC
                # self.workers.stop()
                # END
        finally:
            await self._leave()

    async def _leave(self) -> None:
        if self.spawned is not None:
            await self.spawned.shutdown()
        else:
            await self.hr.close()
