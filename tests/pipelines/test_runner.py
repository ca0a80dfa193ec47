"""Pipelines that run: woken, stopped, changed, paused and removed meanwhile."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import pytest

import headrace
from headrace import Headrace
from headrace.errors import InvalidOption, UnknownPipeline
from headrace.pipelines import run
from headrace.pipelines.apps import app_runner
from headrace.pipelines.engines import InlineEngine, PipelineEngine
from headrace.pipelines.processors import Processor, import_processor
from headrace.pipelines.runners import open_runner
from headrace.pipelines.trust import Trust
from headrace.worker import App, maintenance

PATIENCE = 30.0


def bodies(hr: Headrace, topic: str) -> list[Any]:
    known = {info.name for info in hr.topics.list()}
    return [record.body["n"] for record in hr.range(topic)] if topic in known else []


def eventually(is_so: Callable[[], Any]) -> None:
    give_up = monotonic() + PATIENCE
    while not is_so():
        assert monotonic() < give_up, "it did not come"
        sleep(0.005)


@contextmanager
def running(
    hr: Headrace, *names: str, engine: PipelineEngine | None = None, **inline: Any
) -> Iterator[Any]:
    """A runner in a thread; it is stopped, and must have ended well."""
    runner = open_runner(hr, list(names), inline, engine or InlineEngine())
    failures: list[BaseException] = []

    def work() -> None:
        try:
            runner.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not failures


def test_records_are_processed_as_they_come(hr: Headrace) -> None:
    made = hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with made.start(engine="inline"):
        for n in range(3):
            hr.commit("in", {"n": n})
            hr.procs.wait_idle(made, timeout=PATIENCE)
            assert bodies(hr, "out")[-1] == n * 2
    hr.commit("in", {"n": 9})
    assert made.lag().records == 1


def test_many_pipelines_run_together_and_feed_each_other(hr: Headrace) -> None:
    names = [f"p{n}" for n in range(5)]
    for n, name in enumerate(names):
        hr.pipelines.create(name, source=f"t{n}", to=f"t{n + 1}", processor="pipeline_jobs:double")
    with running(hr, *names) as runner:
        hr.commit_many("t0", [{"n": n} for n in range(100)])
        eventually(lambda: len(bodies(hr, "t5")) == 100)
        hr.procs.wait_idle(names, timeout=PATIENCE)
        # A runner counts what it has acked a moment after it is acked.
        eventually(lambda: all(each.moved == 100 for each in runner.progress()))
        progress = {each.pipeline: each for each in runner.progress()}
    assert bodies(hr, "t5") == [n * 32 for n in range(100)]
    assert sorted(progress) == names
    assert all((each.moved, each.lag, each.eta) == (100, 0, 0.0) for each in progress.values())
    assert all(each.rate > 0 and each.state == "running" for each in progress.values())


def test_stop_waits_for_the_claim_under_way(hr: Headrace) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(body: Any) -> Any:
        begun.set()
        assert go.wait(PATIENCE)
        return body

    hr.commit_many("in", [{"n": n} for n in range(5)])
    made = hr.pipelines.create("p", source="in", to="out", processor=slow, count=2)
    made.start(engine="inline")
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=made.stop)
    stopping.start()
    go.set()
    stopping.join(PATIENCE)
    assert bodies(hr, "out") == [0, 1]
    [proc] = made.info().procs
    assert (proc.claimed, proc.position, proc.attempts) == (None, 2, 0)


def test_a_claim_is_kept_while_the_processor_works(hr: Headrace) -> None:
    """For longer than its time, and nobody else gets the record meanwhile."""
    seen = []

    def slow(body: Any) -> Any:
        first = hr.proc("p").info().claimed_until
        assert first is not None

        def is_extended_beyond() -> bool:
            now = hr.proc("p").info().claimed_until
            return now is not None and (now - first).total_seconds() > 0.3

        eventually(is_extended_beyond)
        seen.append(hr.proc("p").claim())
        return body

    hr.commit("in", {"n": 1})
    made = hr.pipelines.create("p", source="in", to="out", processor=slow, lease=0.3)
    assert made.run_once(engine="inline") == 1
    assert (seen, bodies(hr, "out")) == ([None], [1])
    assert hr.proc("p").info().attempts == 0


def test_a_claim_that_was_lost_commits_nothing(hr: Headrace) -> None:
    """The runner that claims it next does the work; late results are refused."""

    def interrupted(body: Any) -> Any:
        if len(calls) < 1:
            hr.proc("p").nack()
        calls.append(body["n"])
        return body

    calls: list[int] = []
    hr.commit_many("in", [{"n": 1}, {"n": 2}])
    made = hr.pipelines.create("p", source="in", to="out", processor=interrupted)
    assert made.run_once(engine="inline") == 2
    assert (bodies(hr, "out"), calls) == ([1, 2], [1, 2, 1, 2])


def test_a_client_that_closes_stops_its_pipelines(sqlite_url: str) -> None:
    """When the claims under way are acked, and without a word of complaint."""
    begun = threading.Event()

    def slow(body: Any) -> Any:
        begun.set()
        sleep(0.1)
        return body

    with headrace.connect(sqlite_url) as hr:
        hr.commit("in", {"n": 1})
        made = hr.pipelines.create("p", source="in", to="out", processor=slow)
        made.start(engine="inline")
        assert begun.wait(PATIENCE)
    made.stop()
    with headrace.connect(sqlite_url) as hr:
        assert bodies(hr, "out") == [1]


def test_a_new_definition_applies_from_the_next_claim_on(hr: Headrace) -> None:
    """Processor, targets and count, said by another client than the one that runs it."""
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with running(hr, "p"):
        hr.commit("in", {"n": 1})
        hr.procs.wait_idle("p", timeout=PATIENCE)
        hr.pipelines.create(
            "p", source="in", to=["a", "b"], processor="pipeline_jobs:triple", count=1
        )
        hr.commit_many("in", [{"n": 1}, {"n": 2}])
        hr.procs.wait_idle("p", timeout=PATIENCE)
        last, previous = (
            hr.proc("p").info().last_claimed_range,
            hr.proc("p").info().previous_claimed_range,
        )
    assert (bodies(hr, "out"), bodies(hr, "a"), bodies(hr, "b")) == ([2], [3, 6], [3, 6])
    assert (last.count("-2"), previous.count("-1")) == (2, 2)


def test_a_reference_runs_the_function_that_its_client_gave(hr: Headrace) -> None:
    """Another client knows the name of the function only."""
    hr.pipelines.create(
        "double", source="in", to="out", offset="0", processor=lambda body: {"n": body["n"] * 2}
    )
    hr.commit("in", {"n": 4})
    assert hr.pipeline("double").run_once(engine="inline") == 1
    assert bodies(hr, "out") == [8]


def test_a_source_can_be_added_while_it_runs(hr: Headrace) -> None:
    hr.pipelines.create("p", source=["a"], to="out", processor="pipeline_jobs:double")
    hr.commit("b", {"n": 4})
    with running(hr, "p"):
        hr.pipelines.create("p", source=["a", "b"], to="out", processor="pipeline_jobs:double")
        eventually(lambda: bodies(hr, "out") == [8])


def test_a_deleted_pipeline_is_gone(hr: Headrace) -> None:
    """PipeProc's came back with the next poll, and did everything again."""
    hr.commit_many("in", [{"n": n} for n in range(3)])
    made = hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    runner = open_runner(hr, ["p"], {}, InlineEngine())
    thread = threading.Thread(target=runner.run)
    thread.start()
    hr.procs.wait_idle("p", timeout=PATIENCE)
    made.delete()
    hr.commit("in", {"n": 9})
    thread.join(PATIENCE)
    assert not thread.is_alive(), "a runner without pipelines has nothing to do"
    assert (hr.procs.list(), hr.pipelines.list(), len(bodies(hr, "out"))) == ([], [], 3)


def test_deleted_while_it_runs_commits_nothing(hr: Headrace) -> None:
    hr.commit("in", {"n": 1})

    def last(body: Any) -> Any:
        hr.pipeline("p").delete()
        return body

    made = hr.pipelines.create("p", source="in", to="out", processor=last)
    assert made.run_once(engine="inline") == 0
    assert (hr.procs.list(), bodies(hr, "out")) == ([], [])
    with pytest.raises(UnknownPipeline):
        made.run_once(engine="inline")


def test_a_pause_reaches_the_runner(hr: Headrace) -> None:
    made = hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with running(hr, "p") as runner:
        made.pause()
        hr.commit("in", {"n": 1})
        eventually(lambda: [each.state for each in runner.progress()] == ["disabled"])
        assert bodies(hr, "out") == []
        made.resume()
        eventually(lambda: bodies(hr, "out") == [2])


def test_an_app_has_pipelines(hr: Headrace) -> None:
    """A function stays a function; what cannot be imported is run inline.

    All is processed by one run, also what one pipeline leaves for another.
    """
    app = App(client=hr)

    @app.pipeline(source="mid", to="out", name="second", on_exhausted="dead_letter")
    def two(body: dict[str, Any]) -> dict[str, Any]:
        return {"n": body["n"] * 10}

    @app.pipeline(source="in", to="mid", count=2)
    def one(body: dict[str, Any]) -> dict[str, Any]:
        return {"n": body["n"] + 1}

    assert one({"n": 1}) == {"n": 2}
    with pytest.raises(InvalidOption, match="pipeline 'one' already"):
        app.pipeline(source="x", name="one")(two)
    hr.commit_many("in", [{"n": n} for n in range(3)])
    assert run(app, engine="inline", once=True) == 6
    assert bodies(hr, "out") == [10, 20, 30]
    infos = {info.name: info for info in hr.pipelines.list()}
    assert (infos["one"].count, infos["second"].is_inline) == (2, True)
    assert infos["second"].procs[0].on_exhausted == "dead_letter"


def test_an_importable_function_of_an_app_is_stored_by_name(hr: Headrace) -> None:
    import pipeline_jobs

    app = App(client=hr)
    app.pipeline(source="in", to="out")(pipeline_jobs.double)
    app_runner(app, engine="inline")
    [info] = hr.pipelines.list()
    assert (info.processor, info.is_inline) == ("pipeline_jobs:double", False)


def test_a_misspelt_option_is_named_with_those_there_are(hr: Headrace) -> None:
    """At once, by an app too, and not when it is run."""
    with pytest.raises(InvalidOption, match=r"no option 'cuont': use some of to, .*count"):
        hr.pipelines.create("p", source="t", processor=str.upper, cuont=5)
    with pytest.raises(InvalidOption, match="'cuont'"):
        App(client=hr).pipeline(source="t", cuont=5)
    assert hr.pipelines.list() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "magic"}, "spark, inline"),
        ({"engine": "inline", "master": "local[1]"}, "no master"),
        ({"engine": "inline", "spark": "none"}, "no spark"),
        ({"spark": "none"}, "give a SparkSession"),
    ],
    ids=repr,
)
def test_a_wrong_engine_is_refused(hr: Headrace, options: dict[str, Any], words: str) -> None:
    made = hr.pipelines.create("p", source="in", processor="pipeline_jobs:double")
    with pytest.raises(InvalidOption, match=words):
        made.run_once(**options)


def test_async_clients_run_them_in_threads(sqlite_url: str) -> None:
    async def main() -> list[int]:
        async with await headrace.aconnect(sqlite_url) as hr:
            made = await hr.pipelines.create(
                "p", source="in", to="out", processor="pipeline_jobs:later"
            )
            async with await made.start(engine="inline"):
                await hr.commit_many("in", [{"n": n} for n in range(3)])
                await hr.procs.wait_idle(made, timeout=PATIENCE)
            await hr.commit("in", {"n": 3})
            assert await made.run_once(engine="inline") == 1
            going = asyncio.create_task(made.run(engine="inline"))
            await hr.commit("in", {"n": 4})
            await hr.procs.wait_idle("p", timeout=PATIENCE)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            return [record.body["n"] for record in await hr.range("out")]

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


def test_a_function_that_another_process_named_is_refused(sqlite_url: str) -> None:
    """Unless its module is trusted; and nothing is claimed for it."""
    with headrace.connect(sqlite_url) as other:
        other.commit("in", {"n": 1})
        other.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with headrace.connect(sqlite_url) as hr:
        made = hr.pipeline("p")
        for allow in ((), "pipeline", ["pipeline_jobs.deeper", "jobs"]):
            with pytest.raises(InvalidOption, match=r"'pipeline_jobs:double' of pipeline 'p' is "):
                made.run_once(engine="inline", allow=allow)
        assert made.info().procs[0].last_claimed_range == ""
        for allow in ("", "*", ["a b"], [None]):
            with pytest.raises(InvalidOption, match="allow has"):
                made.run_once(engine="inline", allow=allow)
        assert made.run_once(engine="inline", allow="pipeline_jobs") == 1


def test_a_running_pipeline_does_not_take_up_a_function_of_the_database(sqlite_url: str) -> None:
    """Its own goes on being trusted, and runs again when it is named again."""
    with headrace.connect(sqlite_url) as hr, headrace.connect(sqlite_url) as other:
        hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
        with running(hr, "p") as runner:
            hr.commit("in", {"n": 0})
            eventually(lambda: bodies(hr, "out") == [0])
            other.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:triple")
            hr.commit("in", {"n": 1})
            eventually(lambda: "not told to trust" in (runner.progress()[0].error or ""))
            other.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
            eventually(lambda: bodies(hr, "out") == [0, 2])


@pytest.mark.parametrize(
    "name",
    ["json.dumps", "asyncio.run", "Record", "double.__call__", "double.__class__", "inherited.run"],
)
def test_a_trusted_module_lends_no_others(name: str) -> None:
    """What it has imported or inherited is code of another module."""
    reference = f"pipeline_jobs:{name}"
    trust = Trust(["pipeline_jobs"])
    trust.check("p", reference)
    with pytest.raises(InvalidOption, match="allow that module too"):
        trust.check_imported("p", reference, import_processor(reference))
    Trust([], {reference}).check_imported("p", reference, import_processor(reference))


def test_what_a_trusted_module_defines_is_its_own() -> None:
    trust = Trust("pipeline_jobs")
    for name in ("double", "tripled", "inherited", "wrapped"):
        reference = f"pipeline_jobs:{name}"
        trust.check_imported("p", reference, import_processor(reference))


def test_a_runner_does_the_maintenance(hr: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it ends: a queue whose leases were left gets its items back, without any worker."""
    monkeypatch.setattr(maintenance, "INTERVAL", 0.02)
    done = threading.Semaphore(0)
    run_op = hr._store.run

    def watched(op: Any) -> Any:
        answer = run_op(op)
        if op.name == "queues.maintain":
            done.release()
        return answer

    monkeypatch.setattr(hr._store, "run", watched)
    hr.push("left", 1)
    hr.queues.create("left", exist_ok=True).claim(lease=0.01)
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with running(hr, "p"):
        assert done.acquire(timeout=PATIENCE)
        eventually(lambda: hr.queues.create("left", exist_ok=True).stats().active == 0)
    assert not [each for each in threading.enumerate() if each.name == "headrace-maintenance"]


def test_maintenance_that_fails_is_logged(
    hr: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(maintenance, "INTERVAL", 0.02)
    run_op = hr._store.run

    def failing(op: Any) -> Any:
        if op.name == "admin.expire":
            op.accept()
            raise OSError("odd")
        return run_op(op)

    monkeypatch.setattr(hr._store, "run", failing)
    made = hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    with running(hr, "p"):
        eventually(lambda: "maintenance failed: OSError: odd" in caplog.text)
        hr.commit("in", {"n": 1})
        hr.procs.wait_idle(made, timeout=PATIENCE)


class Troubled(InlineEngine):
    """Fails with one of its processors, and with whatever is to show that it works."""

    def __init__(self) -> None:
        super().__init__()
        self.is_back = threading.Event()

    def process(self, processor: Processor, *args: Any, **options: Any) -> Any:
        if processor.name.endswith("triple") and not self.is_back.is_set():
            raise RuntimeError("no executor")
        return super().process(processor, *args, **options)

    def check_alive(self) -> None:
        raise RuntimeError("no executor at all")


def test_trouble_of_one_pipeline_is_its_own(hr: Headrace) -> None:
    """The others go on, and it goes on itself when the trouble is over."""
    engine = Troubled()
    hr.pipelines.create("good", source="in", to="out", processor="pipeline_jobs:double")
    hr.pipelines.create("bad", source="in", to="late", processor="pipeline_jobs:triple")
    hr.commit("in", {"n": 1})
    with running(hr, "good", "bad", engine=engine) as runner:
        eventually(lambda: [each for each in runner.progress() if each.state == "failing"])
        [failing] = [each for each in runner.progress() if each.state == "failing"]
        assert (failing.pipeline, failing.error) == ("bad", "RuntimeError: no executor at all")
        hr.commit("in", {"n": 2})
        eventually(lambda: bodies(hr, "out") == [2, 4])
        engine.is_back.set()
        eventually(lambda: bodies(hr, "late") == [3, 6])
    hr.commit("in", {"n": 3})
    engine.is_back.clear()
    with pytest.raises(RuntimeError, match="no executor at all"):
        open_runner(hr, ["good", "bad"], {}, engine).run(once=True)
    assert bodies(hr, "out") == [2, 4, 6]


def test_calls_that_cannot_be_ended_have_a_limit(
    hr: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process must not fill with threads that never end: it claims no more, and says why."""
    go = threading.Event()
    monkeypatch.setattr("headrace.pipelines.time_limits.MAX_STUCK_THREADS", 2)
    monkeypatch.setattr("headrace.pipelines.time_limits.GRACE_SECONDS", 0.01)
    monkeypatch.setattr("headrace.pipelines.time_limits.REPEAT_SECONDS", 0.01)

    def deaf(body: Any) -> Any:
        while not go.is_set():
            with contextlib.suppress(BaseException):
                go.wait()
        return body

    hr.commit_many("in", [{"n": n} for n in range(5)])
    made = hr.pipelines.create(
        *("p",),
        source="in",
        to="out",
        processor=deaf,
        timeout=0.01,
        max_attempts=1,
        on_exhausted="dead_letter",
    )
    try:
        with pytest.raises(RuntimeError, match="2 calls of processors took too long"):
            made.run_once(engine="inline")
        assert made.lag().records == 3
    finally:
        go.set()


def test_only_an_app_can_be_run() -> None:
    with pytest.raises(InvalidOption, match="app is 'jobs': give an App with pipelines"):
        run("jobs")  # type: ignore[arg-type]
