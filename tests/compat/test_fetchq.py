"""FetchQ's calls: each code block of its document, from top to bottom, then the rest."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from async_facade import bare, wait_until

import headrace
from headrace.compat import fetchq as module
from headrace.compat._async.fetchq import AsyncFetchQ
from headrace.compat.aio import fetchq as async_module
from headrace.compat.fetchq import (
    FetchQCreateError,
    FetchQError,
    FetchQPushError,
    FetchQRefError,
    FetchQRegisterWorkerError,
    FetchQUpsertError,
    Result,
    UpsertResult,
)
from headrace.errors import (
    InvalidBody,
    InvalidOption,
    InvalidQueueName,
    NotConnected,
    QueueExists,
    StoreUnavailable,
    UnknownQueue,
    WorkerExists,
)
from headrace.testing.clocks import FakeClock

NewFetchQ = Callable[[], Any]


def driver_of(url: str) -> dict[str, Any]:
    """The driver's options in FetchQ's form for the store of a URL."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return {"type": "memory", "name": parts.netloc}
    if parts.scheme == "sqlite":
        return {"type": "sqlite", "path": parts.path[1:]}
    options = dict(parse_qsl(parts.query))
    names = {"host": parts.hostname, "port": parts.port, "user": parts.username}
    given = {name: value for name, value in names.items() if value is not None}
    return {"type": "postgres", **given, "database": parts.path[1:], **options}


@pytest.fixture
def fetchq(new_fetchq: NewFetchQ, store_url: str, clock: FakeClock) -> Any:
    """A connected client."""
    client = new_fetchq()
    client.connect({"driver": driver_of(store_url), "clock": clock})
    return client


@pytest.fixture
def hr(store_url: str, clock: FakeClock, fetchq: Any) -> Iterator[headrace.Headrace]:
    """Headrace's own client of the same store, to see what is in it."""
    with headrace.connect(store_url, clock=clock) as client:
        yield client


class TestDocument:
    """The code blocks of the document, from top to bottom."""

    def test_connect_and_status(self, new_fetchq: NewFetchQ, store_url: str) -> None:
        fetchq = new_fetchq()
        assert fetchq.status() == 0
        assert fetchq.connect({"driver": driver_of(store_url)}) is None
        assert fetchq.status() == 1
        fetchq.close()
        assert fetchq.status() == 0

    def test_push(self, fetchq: Any, hr: headrace.Headrace) -> None:
        """The queue is created if it does not exist. Documents that exist in it are skipped."""
        documents = [{"subject": f"s{number}", "payload": {"n": number}} for number in range(15)]
        fetchq.push("queue", documents[:5])
        assert fetchq.push("queue", documents) == Result(pushed=10, skipped=5)
        items = hr.queue("queue").claim(20)
        assert [(item.subject, item.payload["n"]) for item in items] == [
            (f"s{number}", number) for number in range(15)
        ]
        assert hr.queue("queue").info().settings == hr.queues.defaults()
        with pytest.raises(FetchQPushError) as caught:
            fetchq.push("queue", [{"subject": "new"}, {"payload": object()}])
        assert isinstance(caught.value.__cause__, InvalidBody)
        assert hr.queue("queue").stats().total == 15

    def test_upsert(self, fetchq: Any, hr: headrace.Headrace) -> None:
        """Documents that do not exist are created, active ones are not eligible."""
        documents = [{"subject": f"s{number}", "payload": 1} for number in range(17)]
        fetchq.push("queue", documents[:2])
        assert len(hr.queue("queue").claim(2)) == 2
        fetchq.push("queue", documents[2:7])
        changed = [{**document, "payload": 2} for document in documents]
        assert fetchq.upsert("queue", changed) == UpsertResult(pushed=10, updated=5, skipped=2)
        assert {item.payload for item in hr.queue("queue").claim(20)} == {2}
        assert {item.payload for item in hr.queue("queue").items("active")} == {1, 2}
        with pytest.raises(FetchQUpsertError) as caught:
            fetchq.upsert("no/good", changed)
        assert isinstance(caught.value.__cause__, InvalidQueueName)

    def test_active_documents_are_skipped_whatever_the_queue_does(
        self, fetchq: Any, hr: headrace.Headrace
    ) -> None:
        hr.queues.create("queue", while_active="next")
        fetchq.push("queue", [{"subject": "s"}])
        assert len(hr.queue("queue").claim()) == 1
        assert fetchq.upsert("queue", [{"subject": "s"}]) == UpsertResult(0, 0, 1)

    def test_updating_rules(self, fetchq: Any, hr: headrace.Headrace, clock: FakeClock) -> None:
        """The payload, the time and the priority can be updated."""
        fetchq.push("queue", [{"subject": "s", "payload": 1, "priority": 3}])
        later = {"subject": "s", "payload": 2, "nextExecution": "+1h", "priority": 7}
        assert fetchq.upsert("queue", [later]) == UpsertResult(0, 1, 0)
        item = hr.queue("queue").item("s")
        assert (item.payload, item.priority, item.state.name) == (2, 7, "PLANNED")
        assert item.due_at == datetime.fromtimestamp(clock.now / 1000, UTC) + timedelta(hours=1)
        now = {"subject": "s", "nextExecution": "now"}
        assert fetchq.upsert("queue", [now]) == UpsertResult(0, 1, 0)
        [claimed] = hr.queue("queue").claim()
        assert (claimed.payload, claimed.priority) == ({}, 0)

    def test_register_worker(self, fetchq: Any, hr: headrace.Headrace) -> None:
        handled: list[Any] = []
        heard: dict[str, list[Any]] = {"data": [], "error": []}

        def handler(document: Any) -> None:
            handled.append(document.payload)
            if document.payload == "bad":
                raise ValueError("no")

        worker = fetchq.register_worker({"queue": "queue", "handler": handler})
        worker.on("data", heard["data"].append)
        worker.on("error", heard["error"].append)
        fetchq.push("queue", [{"payload": "good"}, {"payload": "bad"}])
        wait_until(lambda: len(heard["data"]) == 2 and len(heard["error"]) == 1)
        assert handled == ["good", "bad"]
        assert str(heard["error"][0].error) == "no"

        worker.pause()
        wait_until(lambda: worker.status == "paused")
        fetchq.push("queue", [{"payload": "later"}])
        assert handled == ["good", "bad"]
        worker.resume()
        wait_until(lambda: handled[2:] == ["later"])

        with pytest.raises(FetchQRegisterWorkerError) as caught:
            fetchq.register_worker({"queue": "queue", "handler": handler})
        assert isinstance(caught.value.__cause__, WorkerExists)
        worker.kill()
        wait_until(lambda: worker.status == "stopped")
        fetchq.register_worker({"queue": "queue", "handler": handler}).kill()

    def test_queue_options(self, fetchq: Any, hr: headrace.Headrace) -> None:
        """All of the document's options, in its spelling or in Python's."""
        options = {
            "logLevel": "info",
            "errors": False,
            "metrics": False,
            "lockDuration": 60,
            "deadThreshold": 7,
            "rejectDelay": 5,
            "rescheduleDelay": 6,
            "workerChunk": 8,
            "workerConcurrency": 9,
        }
        fetchq.create("queue", options)
        fetchq.create(
            "other",
            log_level="info",
            errors=False,
            metrics=False,
            lock_duration=60,
            dead_threshold=7,
            reject_delay=5,
            reschedule_delay=6,
            worker_chunk=8,
            worker_concurrency=9,
        )
        settings = hr.queue("queue").info().settings
        assert (settings.log_level, settings.errors, settings.metrics) == ("info", False, False)
        assert (settings.lease, settings.max_attempts) == (60, 7)
        assert (settings.reject_delay, settings.reschedule_delay) == (5, 6)
        assert (settings.chunk, settings.concurrency) == (8, 9)
        assert hr.queue("other").info().settings == settings

    def test_create(self, fetchq: Any) -> None:
        queue = fetchq.create("queue", {"lockDuration": 60})
        assert queue.name == "queue"
        for wrong, cause in (
            (lambda: fetchq.create("queue"), QueueExists),
            (lambda: fetchq.create("other", {"lockDuration": -1}), InvalidOption),
            (lambda: fetchq.create("other", {"colour": "red"}), InvalidOption),
            (lambda: fetchq.create("no/good"), InvalidQueueName),
        ):
            with pytest.raises(FetchQCreateError) as caught:
                wrong()
            assert isinstance(caught.value.__cause__, cause)

    def test_ref(self, fetchq: Any, hr: headrace.Headrace) -> None:
        """An existing queue keeps the options that are not given."""
        fetchq.ref("queue", {"deadThreshold": 7})
        fetchq.ref("queue", {"lockDuration": 60})
        fetchq.ref("queue")
        settings = hr.queue("queue").info().settings
        assert (settings.max_attempts, settings.lease) == (7, 60)
        with pytest.raises(FetchQRefError) as caught:
            fetchq.ref("queue", {"lockDuration": "never"})
        assert isinstance(caught.value.__cause__, InvalidOption)

    def test_drop(self, fetchq: Any, hr: headrace.Headrace) -> None:
        for keep, found in ((True, 1), (False, 0)):
            fetchq.push("queue", [{"subject": "s"}])
            assert fetchq.drop("queue", {"keepData": keep}) is None
            assert hr.queues.list() == []
            fetchq.create("queue")
            assert hr.queue("queue").stats().total == found
        fetchq.drop("queue", keep_data=False)
        with pytest.raises(FetchQError) as caught:
            fetchq.drop("queue")
        assert isinstance(caught.value.__cause__, UnknownQueue)

    def test_update(
        self, fetchq: Any, new_fetchq: NewFetchQ, store_url: str, clock: FakeClock
    ) -> None:
        """The workers of all connected clients stop, and start again with the new settings."""
        fetchq.create("queue")
        other = new_fetchq()
        other.connect({"driver": driver_of(store_url), "clock": clock})
        states: list[Any] = []
        worker = other.register_worker({"queue": "queue", "handler": lambda item: None})
        worker.on("state", lambda change: states.append(change.after))
        wait_until(lambda: len(fetchq.info("queue")[0].workers) == 1)
        report = fetchq.update("queue", {"lockDuration": 60})
        assert (len(report.stopped), report.unanswered) == (1, ())
        wait_until(lambda: len(states) >= 2 and states[-1] == "running")
        assert fetchq.info("queue")[0].settings.lease == 60
        with pytest.raises(FetchQError) as caught:
            fetchq.update("nowhere", {"lockDuration": 60})
        assert isinstance(caught.value.__cause__, UnknownQueue)

    def test_queue_reference(self, fetchq: Any, new_fetchq: NewFetchQ, store_url: str) -> None:
        """One object per queue and connection: an emitter with the calls for its queue."""
        queue = fetchq.create("queue")
        assert bare(fetchq.ref("queue")) is bare(fetchq.ref("queue")) is bare(queue)
        other = new_fetchq()
        other.connect({"driver": driver_of(store_url)})
        assert bare(other.ref("queue")) is not bare(queue)

        pushed: list[Any] = []
        data: list[Any] = []
        queue.on("pushed", pushed.append)
        end = queue.on("data", data.append)
        assert queue.push([{"subject": "a"}, {"subject": "a"}]) == Result(1, 1)
        assert queue.upsert([{"subject": "a"}, {"subject": "b"}]) == UpsertResult(1, 1, 0)
        fetchq.push("queue", [{"subject": "c"}])
        assert [result.pushed for result in pushed] == [1, 1, 1]
        handled: list[Any] = []
        worker = queue.register_worker({"handler": lambda item: handled.append(item.subject)})
        wait_until(lambda: len(data) == 3)
        assert sorted(handled) == ["a", "b", "c"]
        end()
        heard: list[Any] = []
        end_all = queue.on("pushed", heard.append, scope="all")
        other.push("queue", [{"subject": "z"}])
        wait_until(lambda: len(heard) > 0)
        end_all()
        with pytest.raises(FetchQPushError):
            queue.push({"subject": "not a list"})
        with pytest.raises(FetchQUpsertError):
            queue.upsert(["not a document"])
        with pytest.raises(FetchQRegisterWorkerError):
            queue.register_worker({"handler": print})
        worker.kill()
        fetchq.close()
        with pytest.raises(FetchQPushError):
            queue.push([{"subject": "d"}])

    def test_queue_monitoring(self, fetchq: Any, hr: headrace.Headrace) -> None:
        fetchq.push("queue", [{"subject": "a"}, {"nextExecution": "+1h"}])
        fetchq.push("other", [{}])
        for call in (fetchq.stats, fetchq.compute_stats, fetchq.consolidate_stats):
            [stats] = call("queue")
            assert (stats.queue, stats.pending, stats.planned) == ("queue", 1, 1)
            assert [stats.queue for stats in call(["queue", "other"])] == ["other", "queue"]
            assert len(call()) == 2
            with pytest.raises(FetchQError) as caught:
                call("nowhere")
            assert isinstance(caught.value.__cause__, UnknownQueue)
        assert not fetchq.stats("queue")[0].is_computed
        for call in (fetchq.compute_stats, fetchq.consolidate_stats):
            assert call("queue")[0].is_computed
        worker = fetchq.register_worker({"queue": "queue", "handler": lambda item: None})
        wait_until(lambda: len(fetchq.info("queue")[0].workers) == 1)
        [info] = fetchq.info(["queue"])
        assert (info.name, info.settings.lease) == ("queue", 300)
        assert info.workers[0].rate >= 0
        assert [client.pid for client in hr.admin.clients()]
        worker.kill()


class TestConnect:
    """What the document leaves open about the global instance."""

    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (lambda fetchq: fetchq.push("q", [{}]), FetchQPushError),
            (lambda fetchq: fetchq.upsert("q", [{}]), FetchQUpsertError),
            (
                lambda fetchq: fetchq.register_worker(queue="q", handler=print),
                FetchQRegisterWorkerError,
            ),
            (lambda fetchq: fetchq.create("q"), FetchQCreateError),
            (lambda fetchq: fetchq.ref("q"), FetchQRefError),
            (lambda fetchq: fetchq.drop("q"), FetchQError),
            (lambda fetchq: fetchq.update("q", {}), FetchQError),
            (lambda fetchq: fetchq.stats("q"), FetchQError),
            (lambda fetchq: fetchq.compute_stats("q"), FetchQError),
            (lambda fetchq: fetchq.consolidate_stats("q"), FetchQError),
            (lambda fetchq: fetchq.info("q"), FetchQError),
        ],
    )
    def test_every_call_raises_before_connect_and_after_close(
        self, new_fetchq: NewFetchQ, call: Callable[[Any], Any], error: type[FetchQError]
    ) -> None:
        fetchq = new_fetchq()
        for _ in range(2):
            with pytest.raises(error, match="call connect first") as caught:
                call(fetchq)
            assert type(caught.value) is error
            assert isinstance(caught.value.__cause__, NotConnected)
            fetchq.connect(driver={"type": "memory"})
            fetchq.close()

    def test_a_failed_connect(self, new_fetchq: NewFetchQ, tmp_path: Path) -> None:
        fetchq = new_fetchq()
        with pytest.raises(FetchQError) as caught:
            fetchq.connect(driver={"type": "sqlite", "path": str(tmp_path / "none" / "x.db")})
        assert isinstance(caught.value.__cause__, StoreUnavailable)
        assert fetchq.status() == -1
        fetchq.connect(driver={"type": "sqlite", "path": str(tmp_path / "x.db")})
        assert fetchq.status() == 1
        with pytest.raises(FetchQError, match="close it first"):
            fetchq.connect(driver={"type": "memory"})
        assert fetchq.status() == 1

    @pytest.mark.parametrize(
        "options",
        [
            None,
            {},
            "postgres",
            {"driver": "postgres"},
            {"driver": {"type": "mongo"}},
            {"driver": {"type": "sqlite"}},
            {"driver": {"type": "memory"}, "colour": "red"},
        ],
        ids=repr,
    )
    def test_wrong_options_are_refused(self, new_fetchq: NewFetchQ, options: Any) -> None:
        with pytest.raises(FetchQError) as caught:
            new_fetchq().connect(options)
        assert isinstance(caught.value.__cause__, InvalidOption)

    def test_drivers(self, new_fetchq: NewFetchQ, postgres_url: str, tmp_path: Path) -> None:
        """By their own options, or by the URL of the store."""
        path = tmp_path / "a b%.db"
        by_url = {"type": "postgres", "url": postgres_url}
        sqlite = {"type": "sqlite", "path": str(path), "prefix": "mine_"}
        for driver in (by_url, driver_of(postgres_url), sqlite):
            fetchq = new_fetchq()
            fetchq.connect({"driver": driver, "maxBody": 100})
            with pytest.raises(FetchQPushError, match="100"):
                fetchq.push("queue", [{"payload": "x" * 200}])
        assert path.exists()

    def test_the_module_is_a_global_client(self) -> None:
        assert module.status() == 0
        module.connect({"driver": {"type": "memory"}})
        try:
            assert module.push("queue", [{}, {}]) == Result(2, 0)
            assert module.ref("queue").push([{}]) == Result(1, 0)
            assert module.stats("queue")[0].pending == 3
            assert module.status() == 1
        finally:
            module.close()
        with pytest.raises(FetchQPushError):
            module.push("queue", [{}])

    def test_the_async_module_is_another_one(self) -> None:
        async def use() -> Result:
            await async_module.connect({"driver": {"type": "memory"}})
            try:
                worker = await async_module.register_worker(queue="other", handler=print)
                await worker.kill()
                return await async_module.push("queue", [{}, {}])
            finally:
                await async_module.close()

        assert asyncio.run(use()) == Result(2, 0)
        assert (module.status(), async_module.status()) == (0, 0)

    def test_both_modules_have_the_same_names(self) -> None:
        assert module.__all__ == async_module.__all__ == sorted(module.__all__)
        calls = {name for name in vars(module.FetchQ) if not name.startswith("_")}
        assert calls <= set(module.__all__)
        assert {name for name in vars(AsyncFetchQ) if not name.startswith("_")} == calls


class TestDocuments:
    """Documents in FetchQ's form."""

    def test_fields(self, fetchq: Any, hr: headrace.Headrace, clock: FakeClock) -> None:
        noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
        fetchq.push(
            "queue",
            [
                {"subject": "s", "payload": {"a": 1}, "priority": 2, "nextExecution": "+1h"},
                {"nextExecution": noon, "maxAttempts": 3},
                {"next_execution": int(noon.timestamp() * 1000), "channel": {"os": "linux"}},
                headrace.Doc(4, delay=1),
            ],
        )
        first, second, third, fourth = hr.queue("queue").items("planned")
        assert (first.subject, first.payload, first.priority) == ("s", {"a": 1}, 2)
        assert first.due_at.timestamp() * 1000 == clock.now + 3_600_000
        assert (second.payload, second.due_at) == ({}, noon)
        assert (third.due_at, third.channel) == (
            noon,
            headrace.KeyValues.of({"os": "linux"}),
        )
        assert fourth.payload == 4

    @pytest.mark.parametrize("when", ["now", "now()", "", "-1ms", "-1 year", "- 3m", None])
    def test_words_for_now(self, fetchq: Any, hr: headrace.Headrace, when: Any) -> None:
        """A date in the past means now."""
        fetchq.push("queue", [{"subject": "a", "nextExecution": when}])
        assert [item.subject for item in hr.queue("queue").claim()] == ["a"]

    @pytest.mark.parametrize(
        ("documents", "path"),
        [
            ({"subject": "a"}, "$"),
            ("text", "$"),
            (None, "$"),
            ([{}, "text"], "$[1]"),
            ([{"payload": 1, "prio": 2}], "$[0].prio"),
        ],
    )
    def test_wrong_documents(self, fetchq: Any, documents: Any, path: str) -> None:
        """The error names the place. Nothing is pushed."""
        for call, error in ((fetchq.push, FetchQPushError), (fetchq.upsert, FetchQUpsertError)):
            with pytest.raises(error) as caught:
                call("queue", documents)
            assert caught.value.path == caught.value.__cause__.path == path
        assert fetchq.stats() == []

    def test_no_documents(self, fetchq: Any) -> None:
        assert fetchq.push("queue", []) == Result(0, 0)

    @pytest.mark.parametrize(
        "options",
        [
            {"queue": "queue"},
            {"handler": print},
            {"queue": "queue", "handler": 5},
            {"queue": "queue", "handler": print, "colour": "red"},
            {"queue": "queue", "handler": print, "workerConcurrency": 0},
            "queue",
        ],
        ids=repr,
    )
    def test_wrong_options_of_a_worker(self, fetchq: Any, options: Any) -> None:
        with pytest.raises(FetchQRegisterWorkerError) as caught:
            fetchq.register_worker(options)
        assert isinstance(caught.value.__cause__, headrace.errors.InvalidInput)
