"""Pipelines that run: woken, stopped, changed, paused and removed meanwhile."""

import asyncio
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
from headrace.pipelines.apps import runner_for
from headrace.pipelines.engines import InlineEngine
from headrace.pipelines.handles import runner_of
from headrace.worker import App

PATIENCE = 30.0


def bodies(hr: Headrace, topic: str) -> list[Any]:
    known = {info.name for info in hr.topics()}
    return [record.body["n"] for record in hr.range(topic)] if topic in known else []


def eventually(is_so: Callable[[], Any]) -> None:
    give_up = monotonic() + PATIENCE
    while not is_so():
        assert monotonic() < give_up, "it did not come"
        sleep(0.005)


@contextmanager
def running(hr: Headrace, *names: str, **inline: Any) -> Iterator[Any]:
    """A runner in a thread; it is stopped, and must have ended well."""
    runner = runner_of(hr, list(names), inline, InlineEngine())
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
    made = hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double")
    with made.start(engine="inline"):
        for n in range(3):
            hr.commit("in", {"n": n})
            hr.wait_for_procs(made, timeout=PATIENCE)
            assert bodies(hr, "out")[-1] == n * 2
    hr.commit("in", {"n": 9})
    assert made.lag().records == 1


def test_many_pipelines_run_together_and_feed_each_other(hr: Headrace) -> None:
    names = [f"p{n}" for n in range(5)]
    for n, name in enumerate(names):
        hr.system_proc(name, source=f"t{n}", to=f"t{n + 1}", processor="pipeline_jobs:double")
    with running(hr, *names) as runner:
        hr.commit_many("t0", [{"n": n} for n in range(100)])
        eventually(lambda: len(bodies(hr, "t5")) == 100)
        hr.wait_for_procs(names, timeout=PATIENCE)
        # A runner counts what it has acked a moment after it is acked.
        eventually(lambda: all(each.moved == 100 for each in runner.progress()))
        progress = {each.pipeline: each for each in runner.progress()}
    assert bodies(hr, "t5") == [n * 32 for n in range(100)]
    assert sorted(progress) == names
    assert all((each.moved, each.lag, each.eta) == (100, 0, 0.0) for each in progress.values())
    assert all(each.rate > 0 and each.state == "running" for each in progress.values())


def test_to_stop_sees_the_claim_under_way_through(hr: Headrace) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(body: Any) -> Any:
        begun.set()
        assert go.wait(PATIENCE)
        return body

    hr.commit_many("in", [{"n": n} for n in range(5)])
    made = hr.system_proc("p", source="in", to="out", processor=slow, count=2)
    made.start(engine="inline")
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=made.stop)
    stopping.start()
    go.set()
    stopping.join(PATIENCE)
    assert bodies(hr, "out") == [0, 1]
    [proc] = made.inspect().procs
    assert (proc.claimed, proc.position, proc.reclaims) == (None, 2, 0)


def test_a_claim_is_kept_while_the_processor_works(hr: Headrace) -> None:
    """For longer than its time, and nobody else gets the record meanwhile."""
    seen = []

    def slow(body: Any) -> Any:
        first = hr.proc("p").inspect().claimed_until
        assert first is not None

        def is_extended_beyond() -> bool:
            now = hr.proc("p").inspect().claimed_until
            return now is not None and (now - first).total_seconds() > 0.3

        eventually(is_extended_beyond)
        seen.append(hr.proc("p").claim())
        return body

    hr.commit("in", {"n": 1})
    made = hr.system_proc("p", source="in", to="out", processor=slow, reclaim_timeout=0.3)
    assert made.run_once(engine="inline") == 1
    assert (seen, bodies(hr, "out")) == ([None], [1])
    assert hr.proc("p").inspect().reclaims == 0


def test_a_claim_that_was_lost_commits_nothing(hr: Headrace) -> None:
    """Whoever took it over does the work; late results are refused."""

    def interrupted(body: Any) -> Any:
        if len(calls) < 1:
            hr.proc("p").reclaim()
        calls.append(body["n"])
        return body

    calls: list[int] = []
    hr.commit_many("in", [{"n": 1}, {"n": 2}])
    made = hr.system_proc("p", source="in", to="out", processor=interrupted)
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
        made = hr.system_proc("p", source="in", to="out", processor=slow)
        made.start(engine="inline")
        assert begun.wait(PATIENCE)
    made.stop()
    with headrace.connect(sqlite_url) as hr:
        assert bodies(hr, "out") == [1]


def test_what_is_said_anew_counts_from_the_next_claim_on(hr: Headrace) -> None:
    """Processor, targets and count, said by another client than the one that runs it."""
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double")
    with running(hr, "p"):
        hr.commit("in", {"n": 1})
        hr.wait_for_procs("p", timeout=PATIENCE)
        hr.system_proc("p", source="in", to=["a", "b"], processor="pipeline_jobs:triple", count=1)
        hr.commit_many("in", [{"n": 1}, {"n": 2}])
        hr.wait_for_procs("p", timeout=PATIENCE)
        last, previous = (
            hr.proc("p").inspect().last_claimed_range,
            hr.proc("p").inspect().previous_claimed_range,
        )
    assert (bodies(hr, "out"), bodies(hr, "a"), bodies(hr, "b")) == ([2], [3, 6], [3, 6])
    assert (last.count("-2"), previous.count("-1")) == (2, 2)


def test_a_source_can_be_added_while_it_runs(hr: Headrace) -> None:
    hr.system_proc("p", source=["a"], to="out", processor="pipeline_jobs:double")
    hr.commit("b", {"n": 4})
    with running(hr, "p"):
        hr.system_proc("p", source=["a", "b"], to="out", processor="pipeline_jobs:double")
        eventually(lambda: bodies(hr, "out") == [8])


def test_destroyed_means_gone(hr: Headrace) -> None:
    """PipeProc's came back with the next poll, and did everything again."""
    hr.commit_many("in", [{"n": n} for n in range(3)])
    made = hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double")
    runner = runner_of(hr, ["p"], {}, InlineEngine())
    thread = threading.Thread(target=runner.run)
    thread.start()
    hr.wait_for_procs("p", timeout=PATIENCE)
    made.destroy()
    hr.commit("in", {"n": 9})
    thread.join(PATIENCE)
    assert not thread.is_alive(), "a runner without pipelines has nothing to do"
    assert (hr.procs(), hr.system_procs(), len(bodies(hr, "out"))) == ([], [], 3)


def test_destroyed_under_its_hands_commits_nothing(hr: Headrace) -> None:
    hr.commit("in", {"n": 1})

    def last(body: Any) -> Any:
        hr.system_proc("p").destroy()
        return body

    made = hr.system_proc("p", source="in", to="out", processor=last)
    assert made.run_once(engine="inline") == 0
    assert (hr.procs(), bodies(hr, "out")) == ([], [])
    with pytest.raises(UnknownPipeline):
        made.run_once(engine="inline")


def test_pausing_is_heard_by_who_runs_it(hr: Headrace) -> None:
    made = hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double")
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

    @app.pipeline(source="mid", to="out", name="second", on_max_reclaims_reached="dead_letter")
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
    infos = {info.name: info for info in hr.system_procs()}
    assert (infos["one"].count, infos["second"].is_inline) == (2, True)
    assert infos["second"].procs[0].on_max_reclaims_reached == "dead_letter"


def test_an_importable_function_of_an_app_is_stored_by_name(hr: Headrace) -> None:
    import pipeline_jobs

    app = App(client=hr)
    app.pipeline(source="in", to="out")(pipeline_jobs.double)
    runner_for(app, engine="inline")
    [info] = hr.system_procs()
    assert (info.processor, info.is_inline) == ("pipeline_jobs:double", False)


def test_a_misspelt_option_is_named_with_those_there_are(hr: Headrace) -> None:
    """At once, by an app too, and not when it is run."""
    with pytest.raises(InvalidOption, match=r"no option 'cuont': use some of to, .*count"):
        hr.system_proc("p", source="t", processor=str.upper, cuont=5)
    with pytest.raises(InvalidOption, match="'cuont'"):
        App(client=hr).pipeline(source="t", cuont=5)
    assert hr.system_procs() == []


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
    made = hr.system_proc("p", source="in", processor="pipeline_jobs:double")
    with pytest.raises(InvalidOption, match=words):
        made.run_once(**options)


def test_async_clients_run_them_in_threads(sqlite_url: str) -> None:
    async def main() -> list[int]:
        async with await headrace.aconnect(sqlite_url) as hr:
            made = await hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:later")
            async with await made.start(engine="inline"):
                await hr.commit_many("in", [{"n": n} for n in range(3)])
                await hr.wait_for_procs(made, timeout=PATIENCE)
            await hr.commit("in", {"n": 3})
            assert await made.run_once(engine="inline") == 1
            going = asyncio.create_task(made.run(engine="inline"))
            await hr.commit("in", {"n": 4})
            await hr.wait_for_procs("p", timeout=PATIENCE)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            return [record.body["n"] for record in await hr.range("out")]

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]
