"""One suite, two engines, the same results."""

import threading
from pathlib import Path
from typing import Any

import pipeline_jobs
import pytest

import headrace
from headrace import Headrace, pipelines
from headrace.errors import InvalidOption, ProcDisabled, SparkUnavailable
from headrace.pipelines import runner
from headrace.pipelines.processors import import_processor, processor_of
from headrace.pipelines.rows import Rows
from headrace.pipelines.spark_engine import SparkEngine
from headrace.worker import App

On = dict[str, Any]


def bodies(hr: Headrace, topic: str) -> list[Any]:
    known = {info.name for info in hr.topics.list()}
    return [record.body for record in hr.range(topic)] if topic in known else []


def fill(hr: Headrace, count: int, bad: tuple[int, ...] = (), topic: str = "in") -> None:
    hr.commit_many(topic, [{"n": n, **({"bad": True} if n in bad else {})} for n in range(count)])


def test_results_go_to_every_target_in_order(hr: Headrace, on: On) -> None:
    """None, one or several for a record; claims are as large as ``count`` says."""
    fill(hr, 4)
    made = hr.pipelines.create(
        "p", source="in", to=["a", "b"], processor="pipeline_jobs:by_size", count=3
    )
    assert made.run_once(**on) == 4
    expected = [{"of": 1}, *({"of": n, "i": i} for n in (2, 3) for i in range(n))]
    assert bodies(hr, "a") == bodies(hr, "b") == expected
    assert hr.proc("p").info().last_acked_range.endswith("-3")
    assert hr.proc("p").info().previous_claimed_range.endswith("-2")
    assert made.run_once(**on) == 0
    hr.procs.wait_idle(made, timeout=0)


@pytest.mark.parametrize("count", [3, 1000])
def test_a_pipeline_into_its_own_source_ends(hr: Headrace, on: On, count: int) -> None:
    """It processes what was there when it began; its own results are for the next run."""
    fill(hr, 10)
    made = hr.pipelines.create(
        "p", source="in", to="in", processor="pipeline_jobs:double", count=count
    )
    assert made.run_once(**on) == 10
    assert [body["n"] for body in bodies(hr, "in")[10:]] == [2 * n for n in range(10)]
    assert made.run_once(**on) == 10
    assert made.lag().records == 10


def test_pipelines_that_feed_each_other_in_a_circle_end(hr: Headrace, on: On) -> None:
    app = App(client=hr)
    app.pipeline(source="in", to="back", name="there")(pipeline_jobs.double)
    app.pipeline(source="back", to="in", name="home")(pipeline_jobs.double)
    fill(hr, 4)
    assert pipelines.run(app, once=True, **on) == 4
    assert [body["n"] for body in bodies(hr, "back")] == [0, 2, 4, 6]
    assert pipelines.run(app, once=True, **on) == 4
    assert len(bodies(hr, "in")) == 8


def test_without_a_target_results_are_dropped(hr: Headrace, on: On) -> None:
    """PipeProc tried to commit them to a topic without a name, until the proc was disabled."""
    fill(hr, 3)
    assert (
        hr.pipelines.create("p", source="in", processor="pipeline_jobs:double").run_once(**on) == 3
    )
    assert [info.name for info in hr.topics.list()] == ["in"]


def test_an_inline_function_may_hold_values_of_its_own(hr: Headrace, on: On) -> None:
    fill(hr, 3)
    offset = 100
    hr.pipelines.create(
        "p", source="in", to="out", processor=lambda b: {"n": b["n"] + offset}
    ).run_once(**on)
    assert bodies(hr, "out") == [{"n": 100}, {"n": 101}, {"n": 102}]


def test_a_parameter_annotated_record_gets_the_whole_record(hr: Headrace, on: On) -> None:
    ids = [hr.commit("in", {}, headers={"who": "ann"}), hr.commit("in", [1])]
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:whole").run_once(**on)
    assert bodies(hr, "out") == [
        {"id": ids[0], "topic": "in", "who": "ann"},
        {"id": ids[1], "topic": "in", "who": None},
    ]


def test_several_sources_are_read_by_a_proc_each(hr: Headrace, on: On) -> None:
    fill(hr, 3, topic="one")
    fill(hr, 2, topic="two")
    made = hr.pipelines.create(
        "p", source=["one", "two", "later"], to="out", processor="pipeline_jobs:double"
    )
    assert made.run_once(**on) == 5
    assert sorted(body["n"] for body in bodies(hr, "out")) == [0, 0, 2, 2, 4]


def test_a_coroutine_function_keeps_the_order(hr: Headrace, on: On) -> None:
    """Records are processed side by side; one that fails is alone in it."""
    fill(hr, 10)
    made = hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:later",
        max_attempts=1,
        on_exhausted="dead_letter",
    )
    assert made.run_once(**on) == 10
    assert bodies(hr, "out") == [{"n": n + 1} for n in range(10) if n != 7]
    [letter] = bodies(hr, "p-dead")
    assert (letter["body"], letter["error"]) == ({"n": 7}, "ValueError: seven")


def test_a_batch_function_may_return_bodies(hr: Headrace, on: On) -> None:
    """However they are written: what is stored is compact."""
    fill(hr, 3)
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:texts").run_once(**on)
    assert bodies(hr, "out") == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_batch_function_may_return_columns(hr: Headrace, on: On) -> None:
    ids = hr.commit_many("in", [{}, {}])
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:columns").run_once(
        **on
    )
    assert bodies(hr, "out") == [{"seq": n, "topic": "in", "id": ids[n]} for n in (0, 1)]


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_a_record_that_fails_stops_the_proc_exactly_there(
    hr: Headrace, on: On, processor: str
) -> None:
    """What lies before it is through, and after the mistake is mended nothing is lost."""
    fill(hr, 9, bad=(5,))
    made = hr.pipelines.create(
        "p", source="in", to="out", processor=f"pipeline_jobs:{processor}", max_attempts=2
    )
    with pytest.raises(ProcDisabled, match="ValueError"):
        made.run_once(**on)
    assert bodies(hr, "out") == [{"n": n} for n in range(5)]
    [proc] = made.info().procs
    assert (proc.status, proc.position, proc.attempts) == ("disabled", 5, 2)
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:triple")
    made.resume()
    assert made.run_once(**on) == 4
    assert bodies(hr, "out") == [{"n": n} for n in range(5)] + [{"n": n * 3} for n in (5, 6, 7, 8)]


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_dead_letters_leave_the_others_alone(hr: Headrace, on: On, processor: str) -> None:
    """Several in one claim, also side by side, first and last; with the error and the record."""
    fill(hr, 8, bad=(0, 3, 4, 7))
    made = hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor=f"pipeline_jobs:{processor}",
        max_attempts=2,
        on_exhausted="dead_letter",
    )
    assert made.run_once(**on) == 8
    assert bodies(hr, "out") == [{"n": n} for n in (1, 2, 5, 6)]
    letters = bodies(hr, "p-dead")
    assert [letter["body"]["n"] for letter in letters] == [0, 3, 4, 7]
    assert {letter["attempts"] for letter in letters} == {2}
    assert all(letter["error"].startswith("ValueError: ") for letter in letters)
    assert [letter["id"] for letter in letters] == [hr.range("in")[n].id for n in (0, 3, 4, 7)]
    assert made.lag().records == 0


def test_a_result_that_is_none_is_the_records_failure(hr: Headrace, on: On) -> None:
    """A bare number, what JSON does not know, text in a list: the letter says what it was."""
    fill(hr, 9)
    hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:number",
        max_attempts=1,
        on_exhausted="dead_letter",
    ).run_once(**on)
    assert bodies(hr, "out") == [{"n": n} for n in (0, 1, 2, 3, 4, 8)]
    letters = bodies(hr, "p-dead")
    assert [letter["body"]["n"] for letter in letters] == [5, 6, 7]
    assert "not int" in letters[0]["error"]
    assert "$.n is nan" in letters[1]["error"]


def test_a_processor_that_wants_to_leave_fails_like_others(hr: Headrace, on: On) -> None:
    fill(hr, 5)
    with pytest.raises(ProcDisabled, match="SystemExit: 4"):
        hr.pipelines.create(
            "p", source="in", to="out", processor="pipeline_jobs:leaving", max_attempts=1
        ).run_once(**on)
    assert len(bodies(hr, "out")) == 3


def test_going_on_means_to_try_again(hr: Headrace, on: On, monkeypatch: pytest.MonkeyPatch) -> None:
    """``continue`` is never disabled; to go through once ends all the same, and says why."""
    monkeypatch.setattr(runner, "MAX_PAUSE_SECONDS", runner.MIN_PAUSE_SECONDS)
    fill(hr, 3, bad=(1,))
    made = hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:picky",
        on_exhausted="continue",
        max_attempts=1,
    )
    with pytest.raises(ProcDisabled, match="does not get past a record that failed 10 times"):
        made.run_once(**on)
    assert made.info().status == "active"
    assert bodies(hr, "out") == [{"n": 0}]


def test_a_processor_that_cannot_be_imported_is_named(hr: Headrace, on: On) -> None:
    """Before anything is claimed."""
    fill(hr, 1)
    for reference, why in (("no_such_module:f", "no_such_module"), ("pipeline_jobs:nope", "nope")):
        made = hr.pipelines.create("p", source="in", to="out", processor=reference)
        with pytest.raises(InvalidOption, match=f"{reference}.*cannot be imported.*{why}"):
            made.run_once(**on)
    [proc] = made.info().procs
    assert (proc.claimed, proc.attempts, proc.position) == (None, 0, 0)


def test_an_inline_processor_exists_only_where_it_was_defined(
    hr: Headrace, sqlite_url: str, on: On
) -> None:
    hr.pipelines.create("p", source="in", processor=lambda body: body)
    with (
        headrace.connect(sqlite_url) as other,
        pytest.raises(InvalidOption, match=r"<lambda>.*exists only in the process that defined it"),
    ):
        other.pipeline("p").run_once(**on)


def test_large_claims_are_split_among_tasks(hr: Headrace, on: On) -> None:
    """And come back in order."""
    fill(hr, 3000)
    made = hr.pipelines.create(
        "p", source="in", to="out", processor="pipeline_jobs:double", count=3000
    )
    assert made.run_once(**on) == 3000
    assert [body["n"] for body in bodies(hr, "out")] == [n * 2 for n in range(3000)]


@pytest.mark.parametrize("store", ["memory", "postgres"])
def test_every_store_will_do(on: On, store: str, request: pytest.FixtureRequest) -> None:
    with headrace.connect(request.getfixturevalue(f"{store}_url")) as hr:
        fill(hr, 5, bad=(2,))
        made = hr.pipelines.create(
            "p",
            source="in",
            to="out",
            processor="pipeline_jobs:picky",
            max_attempts=1,
            on_exhausted="dead_letter",
        )
        assert made.run_once(**on) == 5
        assert bodies(hr, "out") == [{"n": n} for n in (0, 1, 3, 4)]
        assert len(bodies(hr, "p-dead")) == 1


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_large_claims_are_read_and_staged_by_executors(
    spark: Any, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one claim, to every target, in order; dead letters of before are left out."""
    monkeypatch.setattr("headrace.pipelines.proc_runner.MIN_PARTITIONED_RECORDS", 100)
    with headrace.connect(request.getfixturevalue(f"{store}_url")) as hr:
        for first in range(0, 500, 50):
            hr.commit_many("in", [{"n": n} for n in range(first, first + 50)])
        proc = hr.procs.create("p", "in", max_attempts=1, on_exhausted="dead_letter")
        claim = proc.claim(count=9)
        claim.nack(failed=claim[5])
        made = hr.pipelines.create(
            "p", source="in", to=["a", "b"], processor="pipeline_jobs:double", count=100_000
        )
        assert made.run_once(spark=spark) == 499
        expected = [n * 2 for n in range(500) if n != 5]
        assert [body["n"] for body in bodies(hr, "a")] == expected
        assert bodies(hr, "a") == bodies(hr, "b")
        assert proc.info().last_acked_range.split("..")[0].endswith("-0")
        assert len({record.ts for record in hr.range("a")}) == 1, "it was not one publication"
        # What leaves nothing to stage is acked all the same.
        hr.commit_many("in", [{"n": 0}] * 200)
        hr.pipelines.create(
            "p", source="in", to="a", processor="pipeline_jobs:by_size", count=100_000
        )
        assert made.run_once(spark=spark) == 200
        assert (made.lag().records, hr.topic("a").length()) == (0, 499)


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_a_record_that_fails_in_a_large_claim_is_isolated_too(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch, processor: str
) -> None:
    monkeypatch.setattr("headrace.pipelines.proc_runner.MIN_PARTITIONED_RECORDS", 100)
    fill(hr, 400, bad=(150, 320))
    made = hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor=f"pipeline_jobs:{processor}",
        count=100_000,
        max_attempts=2,
        on_exhausted="dead_letter",
    )
    assert made.run_once(spark=spark) == 400
    assert bodies(hr, "out") == [{"n": n} for n in range(400) if n not in (150, 320)]
    assert [letter["body"]["n"] for letter in bodies(hr, "p-dead")] == [150, 320]


def test_a_frame_function_runs_on_spark_only(hr: Headrace, spark: Any) -> None:
    """A record that makes it fail is found by calling it with ever fewer."""
    fill(hr, 6, bad=(4,))
    made = hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:frame",
        max_attempts=1,
        on_exhausted="dead_letter",
    )
    with pytest.raises(InvalidOption, match=r"pipeline_jobs:frame takes a Spark DataFrame"):
        made.run_once(engine="inline")
    assert made.run_once(spark=spark) == 6
    assert bodies(hr, "out") == [{"n": n * 10, "seq": n} for n in (0, 1, 2, 3, 5)]
    assert [letter["body"]["n"] for letter in bodies(hr, "p-dead")] == [4]


def test_what_cannot_be_pickled_is_named_before_anything_is_claimed(
    hr: Headrace, spark: Any
) -> None:
    fill(hr, 1)
    lock = threading.Lock()

    def locked(body: Any) -> Any:
        with lock:
            return body

    made = hr.pipelines.create("p", source="in", to="out", processor=locked)
    with pytest.raises(InvalidOption, match=r"locked cannot be sent to Spark's executors.*lock"):
        made.run_once(spark=spark)
    assert made.info().procs[0].claimed is None
    assert made.run_once(engine="inline") == 1


def test_what_executors_cannot_import_is_named(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A module that only the driver has; nothing is lost, and nothing counted."""
    fill(hr, 1)
    (tmp_path / "only_here.py").write_text("def f(body):\n    return body\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = hr.pipelines.create("p", source="in", to="out", processor="only_here:f")
    engine = SparkEngine.open(master=None, spark=spark)
    processor = processor_of(import_processor("only_here:f"), kind=None, reference="only_here:f")
    (tmp_path / "only_here.py").unlink()
    rows = Rows("in", [0], [1], ["{}"], [None])
    with pytest.raises(SparkUnavailable, match=r"cannot load the processor only_here:f.*local"):
        engine.process(processor, rows, max_body=100, is_separate=False, timeout=None)
    assert made.info().procs[0].attempts == 0


def test_a_large_claim_of_a_frame_function_is_read_and_staged_by_executors(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails does not say where: then claims are small until the record is found."""
    monkeypatch.setattr("headrace.pipelines.proc_runner.MIN_PARTITIONED_RECORDS", 100)
    fill(hr, 300)
    made = hr.pipelines.create(
        "p", source="in", to=["a", "b"], processor="pipeline_jobs:frame", count=100_000
    )
    assert made.run_once(spark=spark) == 300
    assert bodies(hr, "a") == bodies(hr, "b") == [{"n": n * 10, "seq": n} for n in range(300)]
    assert len({record.ts for record in hr.range("a")}) == 1, "it was not one publication"
    hr.commit_many("in", [{"n": n, **({"bad": 1} if n == 120 else {})} for n in range(200)])
    with pytest.raises(ProcDisabled, match="bad"):
        hr.pipelines.create(
            *("p",),
            source="in",
            to="c",
            processor="pipeline_jobs:frame",
            count=100_000,
            max_attempts=1,
        ).run_once(spark=spark)
    assert len(bodies(hr, "c")) == 120
    assert made.info().procs[0].position == 420


@pytest.mark.parametrize("large", [100, 100_000], ids=["large", "small"])
def test_a_frame_function_may_use_its_frame_as_often_as_it_likes(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """In claims that executors read and in those that travel through the driver."""
    monkeypatch.setattr("headrace.pipelines.proc_runner.MIN_PARTITIONED_RECORDS", large)
    fill(hr, 300)
    for processor, name in (("halves", "h"), ("paired", "p")):
        made = hr.pipelines.create(
            name, source="in", to=name, processor=f"pipeline_jobs:{processor}", count=100_000
        )
        assert made.run_once(spark=spark) == 300
        assert sorted(body["seq"] for body in bodies(hr, name)) == list(range(300))
    assert sum(body["twin"] is not None for body in bodies(hr, "p")) == 260


DEAD_LETTERS: Any = {"max_attempts": 1, "on_exhausted": "dead_letter"}


def mixed(hr: Headrace, count: int, **how: int) -> list[int]:
    """Records of which some say how they are to go wrong; the numbers of the others."""
    by_number = {n: word for word, n in how.items()}
    hr.commit_many(
        "in", [{"n": n, **({"how": by_number[n]} if n in by_number else {})} for n in range(count)]
    )
    return [n for n in range(count) if n not in by_number]


def letters(hr: Headrace, proc: str = "p") -> dict[str, str]:
    return {body["body"]["how"]: body["error"] for body in bodies(hr, f"{proc}-dead")}


def test_whatever_a_processor_raises_is_the_failure_of_its_record(hr: Headrace, on: On) -> None:
    """What ends a process elsewhere, too: signals for the process do not arrive in a processor."""
    good = mixed(hr, 9, cancelled=1, interrupted=2, left=4, odd=6, closed=7)
    made = hr.pipelines.create(
        "p", source="in", to="out", processor="pipeline_jobs:raising", **DEAD_LETTERS
    )
    assert made.run_once(**on) == 9
    assert [body["n"] for body in bodies(hr, "out")] == good
    found = letters(hr)
    assert {how: error.split(":")[0] for how, error in found.items()} == {
        "cancelled": "CancelledError",
        "interrupted": "KeyboardInterrupt",
        "left": "SystemExit",
        "odd": "Odd",
        "closed": "GeneratorExit",
    }


def test_a_coroutine_that_cancels_itself_fails_only_its_record(hr: Headrace, on: On) -> None:
    """Itself, all tasks of the loop, or the loop: those beside it are processed all the same."""
    good = mixed(hr, 9, cancelled=1, itself=3, everything=4, stopped=5, left=7)
    made = hr.pipelines.create(
        "p", source="in", to="out", processor="pipeline_jobs:raising_later", **DEAD_LETTERS
    )
    assert made.run_once(**on) == 9
    assert [body["n"] for body in bodies(hr, "out")] == good
    assert sorted(letters(hr)) == ["cancelled", "everything", "itself", "left", "stopped"]


def test_a_record_that_ends_its_worker_is_found(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another pipeline of the runner goes on."""
    monkeypatch.setattr("headrace.pipelines.engine_calls.MAX_ENGINE_FAILURES", 1)
    good = mixed(hr, 4, exit=2)
    app = App(client=hr)
    app.pipeline(source="in", to="out", name="p", **DEAD_LETTERS)(pipeline_jobs.deadly)
    app.pipeline(source="in", to="other", name="q")(pipeline_jobs.double)
    assert pipelines.run(app, spark=spark, once=True) == 8
    assert [body["n"] for body in bodies(hr, "out")] == good
    assert [body["n"] for body in bodies(hr, "other")] == [n * 2 for n in range(4)]
    assert "Spark's Python worker ended" in letters(hr)["exit"]


@pytest.mark.faults
def test_a_record_that_ends_its_worker_is_found_in_a_large_claim(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipelines.proc_runner.MIN_PARTITIONED_RECORDS", 100)
    monkeypatch.setattr("headrace.pipelines.engine_calls.MAX_ENGINE_FAILURES", 1)
    good = mixed(hr, 120, exit=60, crash=61)
    made = hr.pipelines.create(
        *("p",),
        source="in",
        to="out",
        processor="pipeline_jobs:deadly",
        count=1000,
        **DEAD_LETTERS,
    )
    assert made.run_once(spark=spark) == 120
    assert [body["n"] for body in bodies(hr, "out")] == good
    assert list(letters(hr)) == ["exit", "crash"]


@pytest.mark.parametrize("processor", ["endless", "endless_later", "endless_batch"])
def test_a_call_that_takes_too_long_is_ended(
    hr: Headrace, on: On, processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it computes, and while it waits; those beside it are not touched."""
    monkeypatch.setattr("headrace.pipelines.engine_calls.MAX_ENGINE_FAILURES", 1)
    monkeypatch.setattr("headrace.pipelines.time_limits.GRACE_SECONDS", 0.2)
    good = mixed(hr, 4, busy=1, asleep=2)
    made = hr.pipelines.create(
        *("p",),
        source="in",
        to="out",
        processor=f"pipeline_jobs:{processor}",
        timeout=0.3,
        **DEAD_LETTERS,
    )
    assert made.info().timeout == 0.3
    assert made.run_once(**on) == 4
    assert [body.get("n", body.get("seq")) for body in bodies(hr, "out")] == good
    found = letters(hr)
    assert sorted(found) == ["asleep", "busy"]
    assert all("it took longer than timeout=0.3 s" in error for error in found.values())


def test_a_call_that_cannot_be_interrupted_does_not_hold_its_claim(
    hr: Headrace, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Spark its worker is ended; inline its thread is abandoned."""
    monkeypatch.setattr("headrace.pipelines.engine_calls.MAX_ENGINE_FAILURES", 1)
    monkeypatch.setattr("headrace.pipelines.time_limits.GRACE_SECONDS", 0.2)
    mixed(hr, 1, deaf=0)
    made = hr.pipelines.create(
        "p", source="in", to="out", processor="pipeline_jobs:endless", timeout=0.2, **DEAD_LETTERS
    )
    assert made.run_once(**on) == 1
    words = "abandoned" if on["engine"] == "inline" else "Spark's Python worker ended"
    assert words in letters(hr)["deaf"]


@pytest.mark.faults
def test_a_frame_function_that_takes_too_long_is_ended_with_its_job(
    hr: Headrace, spark: Any
) -> None:
    """And what comes later is processed by the worker that replaces it."""
    mixed(hr, 1, deaf=0)
    options: Any = {"source": "in", "to": "out", "processor": "pipeline_jobs:endless_frame"}
    made = hr.pipelines.create("p", timeout=1, **options, **DEAD_LETTERS)
    assert made.run_once(spark=spark) == 1
    assert "it took longer than timeout=1 s" in letters(hr)["deaf"]
    hr.commit("in", {"n": 1})
    hr.pipelines.create("p", **options)
    assert made.run_once(spark=spark) == 1
    assert bodies(hr, "out") == [{"n": 1}]


def test_a_runner_may_have_a_limit_for_all(hr: Headrace) -> None:
    """For pipelines that have none of their own."""
    mixed(hr, 2, busy=0)
    app = App(client=hr)
    app.pipeline(source="in", to="a", name="p", **DEAD_LETTERS)(pipeline_jobs.endless)
    app.pipeline(source="in", to="b", name="q", timeout=0.1, **DEAD_LETTERS)(pipeline_jobs.endless)
    assert pipelines.run(app, engine="inline", once=True, timeout=0.2) == 4
    assert (
        "timeout=0.2 s" in letters(hr)["busy"],
        "timeout=0.1 s" in letters(hr, "q")["busy"],
    ) == (
        True,
        True,
    )
    with pytest.raises(InvalidOption, match="timeout is 0"):
        pipelines.run(app, engine="inline", timeout=0)
    with pytest.raises(InvalidOption, match="timeout is -1"):
        hr.pipelines.create("r", source="in", processor="pipeline_jobs:double", timeout=-1)
