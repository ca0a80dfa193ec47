"""One suite, two engines, the same results."""

import threading
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import Headrace
from headrace.errors import InvalidOption, ProcDisabled, SparkUnavailable
from headrace.pipelines import runner
from headrace.pipelines.processors import find, processor_of
from headrace.pipelines.rows import Rows
from headrace.pipelines.spark_engine import SparkEngine

On = dict[str, Any]


def bodies(hr: Headrace, topic: str) -> list[Any]:
    known = {info.name for info in hr.topics()}
    return [record.body for record in hr.range(topic)] if topic in known else []


def fill(hr: Headrace, count: int, bad: tuple[int, ...] = (), topic: str = "in") -> None:
    hr.commit_many(topic, [{"n": n, **({"bad": True} if n in bad else {})} for n in range(count)])


def test_results_go_to_every_target_in_order(hr: Headrace, on: On) -> None:
    """None, one or several for a record; claims are as large as ``count`` says."""
    fill(hr, 4)
    made = hr.system_proc(
        "p", source="in", to=["a", "b"], processor="pipeline_jobs:by_size", count=3
    )
    assert made.run_once(**on) == 4
    expected = [{"of": 1}, *({"of": n, "i": i} for n in (2, 3) for i in range(n))]
    assert bodies(hr, "a") == bodies(hr, "b") == expected
    assert hr.proc("p").inspect().last_acked_range.endswith("-3")
    assert hr.proc("p").inspect().previous_claimed_range.endswith("-2")
    assert made.run_once(**on) == 0
    hr.wait_for_procs(made, timeout=0)


def test_without_a_target_results_are_dropped(hr: Headrace, on: On) -> None:
    """PipeProc tried to commit them to a topic without a name, until the proc was disabled."""
    fill(hr, 3)
    assert hr.system_proc("p", source="in", processor="pipeline_jobs:double").run_once(**on) == 3
    assert [info.name for info in hr.topics()] == ["in"]


def test_an_inline_function_may_hold_values_of_its_own(hr: Headrace, on: On) -> None:
    fill(hr, 3)
    offset = 100
    hr.system_proc("p", source="in", to="out", processor=lambda b: {"n": b["n"] + offset}).run_once(
        **on
    )
    assert bodies(hr, "out") == [{"n": 100}, {"n": 101}, {"n": 102}]


def test_who_asks_for_a_record_gets_all_of_it(hr: Headrace, on: On) -> None:
    ids = [hr.commit("in", {}, headers={"who": "ann"}), hr.commit("in", [1])]
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:whole").run_once(**on)
    assert bodies(hr, "out") == [
        {"id": ids[0], "topic": "in", "who": "ann"},
        {"id": ids[1], "topic": "in", "who": None},
    ]


def test_several_sources_are_read_by_a_proc_each(hr: Headrace, on: On) -> None:
    fill(hr, 3, topic="one")
    fill(hr, 2, topic="two")
    made = hr.system_proc(
        "p", source=["one", "two", "later"], to="out", processor="pipeline_jobs:double"
    )
    assert made.run_once(**on) == 5
    assert sorted(body["n"] for body in bodies(hr, "out")) == [0, 0, 2, 2, 4]


def test_a_coroutine_function_keeps_the_order(hr: Headrace, on: On) -> None:
    """Records are processed side by side; one that fails is alone in it."""
    fill(hr, 10)
    made = hr.system_proc(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:later",
        max_reclaims=1,
        on_max_reclaims_reached="dead_letter",
    )
    assert made.run_once(**on) == 10
    assert bodies(hr, "out") == [{"n": n + 1} for n in range(10) if n != 7]
    [letter] = bodies(hr, "p-dead")
    assert (letter["body"], letter["error"]) == ({"n": 7}, "ValueError: seven")


def test_a_batch_function_may_return_bodies(hr: Headrace, on: On) -> None:
    """However they are written: what is stored is compact."""
    fill(hr, 3)
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:texts").run_once(**on)
    assert bodies(hr, "out") == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_batch_function_may_return_columns(hr: Headrace, on: On) -> None:
    ids = hr.commit_many("in", [{}, {}])
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:columns").run_once(**on)
    assert bodies(hr, "out") == [{"seq": n, "topic": "in", "id": ids[n]} for n in (0, 1)]


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_a_record_that_fails_stops_the_proc_exactly_there(
    hr: Headrace, on: On, processor: str
) -> None:
    """What lies before it is through, and after the mistake is mended nothing is lost."""
    fill(hr, 9, bad=(5,))
    made = hr.system_proc(
        "p", source="in", to="out", processor=f"pipeline_jobs:{processor}", max_reclaims=2
    )
    with pytest.raises(ProcDisabled, match="ValueError"):
        made.run_once(**on)
    assert bodies(hr, "out") == [{"n": n} for n in range(5)]
    [proc] = made.inspect().procs
    assert (proc.status, proc.position, proc.reclaims) == ("disabled", 5, 2)
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:triple")
    made.resume()
    assert made.run_once(**on) == 4
    assert bodies(hr, "out") == [{"n": n} for n in range(5)] + [{"n": n * 3} for n in (5, 6, 7, 8)]


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_dead_letters_leave_the_others_alone(hr: Headrace, on: On, processor: str) -> None:
    """Several in one claim, also side by side, first and last; with the error and the record."""
    fill(hr, 8, bad=(0, 3, 4, 7))
    made = hr.system_proc(
        "p",
        source="in",
        to="out",
        processor=f"pipeline_jobs:{processor}",
        max_reclaims=2,
        on_max_reclaims_reached="dead_letter",
    )
    assert made.run_once(**on) == 8
    assert bodies(hr, "out") == [{"n": n} for n in (1, 2, 5, 6)]
    letters = bodies(hr, "p-dead")
    assert [letter["body"]["n"] for letter in letters] == [0, 3, 4, 7]
    assert {letter["reclaims"] for letter in letters} == {2}
    assert all(letter["error"].startswith("ValueError: ") for letter in letters)
    assert [letter["id"] for letter in letters] == [hr.range("in")[n].id for n in (0, 3, 4, 7)]
    assert made.lag().records == 0


def test_a_result_that_is_none_is_the_records_failure(hr: Headrace, on: On) -> None:
    """A bare number, what JSON does not know, text in a list: the letter says what it was."""
    fill(hr, 9)
    hr.system_proc(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:number",
        max_reclaims=1,
        on_max_reclaims_reached="dead_letter",
    ).run_once(**on)
    assert bodies(hr, "out") == [{"n": n} for n in (0, 1, 2, 3, 4, 8)]
    letters = bodies(hr, "p-dead")
    assert [letter["body"]["n"] for letter in letters] == [5, 6, 7]
    assert "not int" in letters[0]["error"]
    assert "$.n is nan" in letters[1]["error"]


def test_a_processor_that_wants_to_leave_fails_like_others(hr: Headrace, on: On) -> None:
    fill(hr, 5)
    with pytest.raises(ProcDisabled, match="SystemExit: 4"):
        hr.system_proc(
            "p", source="in", to="out", processor="pipeline_jobs:leaving", max_reclaims=1
        ).run_once(**on)
    assert len(bodies(hr, "out")) == 3


def test_going_on_means_to_try_again(hr: Headrace, on: On, monkeypatch: pytest.MonkeyPatch) -> None:
    """``continue`` is never disabled; to go through once ends all the same, and says why."""
    monkeypatch.setattr(runner, "LONGEST_PAUSE", runner.FIRST_PAUSE)
    fill(hr, 3, bad=(1,))
    made = hr.system_proc(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:picky",
        on_max_reclaims_reached="continue",
        max_reclaims=1,
    )
    with pytest.raises(ProcDisabled, match="does not get past a record that failed 10 times"):
        made.run_once(**on)
    assert made.inspect().status == "active"
    assert bodies(hr, "out") == [{"n": 0}]


def test_a_processor_that_cannot_be_imported_is_named(hr: Headrace, on: On) -> None:
    """Before anything is claimed."""
    fill(hr, 1)
    for reference, why in (("no_such_module:f", "no_such_module"), ("pipeline_jobs:nope", "nope")):
        made = hr.system_proc("p", source="in", to="out", processor=reference)
        with pytest.raises(InvalidOption, match=f"{reference}.*cannot be imported.*{why}"):
            made.run_once(**on)
    [proc] = made.inspect().procs
    assert (proc.claimed, proc.reclaims, proc.position) == (None, 0, 0)


def test_an_inline_processor_lives_where_it_was_defined(hr: Headrace, on: On) -> None:
    hr.system_proc("p", source="in", processor=lambda body: body)
    with pytest.raises(InvalidOption, match=r"<lambda>.*lives in the process that defined it"):
        hr.system_proc("p").run_once(**on)


def test_large_claims_are_split_among_tasks(hr: Headrace, on: On) -> None:
    """And come back in order."""
    fill(hr, 3000)
    made = hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double", count=3000)
    assert made.run_once(**on) == 3000
    assert [body["n"] for body in bodies(hr, "out")] == [n * 2 for n in range(3000)]


@pytest.mark.parametrize("store", ["memory", "postgres"])
def test_every_store_will_do(on: On, store: str, request: pytest.FixtureRequest) -> None:
    with headrace.connect(request.getfixturevalue(f"{store}_url")) as hr:
        fill(hr, 5, bad=(2,))
        made = hr.system_proc(
            "p",
            source="in",
            to="out",
            processor="pipeline_jobs:picky",
            max_reclaims=1,
            on_max_reclaims_reached="dead_letter",
        )
        assert made.run_once(**on) == 5
        assert bodies(hr, "out") == [{"n": n} for n in (0, 1, 3, 4)]
        assert len(bodies(hr, "p-dead")) == 1


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_large_claims_are_read_and_staged_by_executors(
    spark: Any, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one claim, to every target, in order; dead letters of before are left out."""
    monkeypatch.setattr("headrace.pipelines.lanes.LARGE", 100)
    with headrace.connect(request.getfixturevalue(f"{store}_url")) as hr:
        for first in range(0, 500, 50):
            hr.commit_many("in", [{"n": n} for n in range(first, first + 50)])
        proc = hr.proc("p", topic="in", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        claim = proc.claim(count=9)
        claim.reclaim(failed=claim[5])
        made = hr.system_proc(
            "p", source="in", to=["a", "b"], processor="pipeline_jobs:double", count=100_000
        )
        assert made.run_once(spark=spark) == 499
        expected = [n * 2 for n in range(500) if n != 5]
        assert [body["n"] for body in bodies(hr, "a")] == expected
        assert bodies(hr, "a") == bodies(hr, "b")
        assert proc.inspect().last_acked_range.split("..")[0].endswith("-0")
        assert len({record.ts for record in hr.range("a")}) == 1, "it was not one publication"
        # What leaves nothing to stage is acked all the same.
        hr.commit_many("in", [{"n": 0}] * 200)
        hr.system_proc("p", source="in", to="a", processor="pipeline_jobs:by_size", count=100_000)
        assert made.run_once(spark=spark) == 200
        assert (made.lag().records, hr.length("a")) == (0, 499)


@pytest.mark.parametrize("processor", ["picky", "texts"])
def test_a_record_that_fails_in_a_large_claim_is_isolated_too(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch, processor: str
) -> None:
    monkeypatch.setattr("headrace.pipelines.lanes.LARGE", 100)
    fill(hr, 400, bad=(150, 320))
    made = hr.system_proc(
        "p",
        source="in",
        to="out",
        processor=f"pipeline_jobs:{processor}",
        count=100_000,
        max_reclaims=2,
        on_max_reclaims_reached="dead_letter",
    )
    assert made.run_once(spark=spark) == 400
    assert bodies(hr, "out") == [{"n": n} for n in range(400) if n not in (150, 320)]
    assert [letter["body"]["n"] for letter in bodies(hr, "p-dead")] == [150, 320]


def test_a_frame_function_runs_on_spark_only(hr: Headrace, spark: Any) -> None:
    """A record that makes it fail is found by calling it with ever fewer."""
    fill(hr, 6, bad=(4,))
    made = hr.system_proc(
        "p",
        source="in",
        to="out",
        processor="pipeline_jobs:frame",
        max_reclaims=1,
        on_max_reclaims_reached="dead_letter",
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

    made = hr.system_proc("p", source="in", to="out", processor=locked)
    with pytest.raises(InvalidOption, match=r"locked cannot be sent to Spark's executors.*lock"):
        made.run_once(spark=spark)
    assert made.inspect().procs[0].claimed is None
    assert made.run_once(engine="inline") == 1


def test_what_executors_cannot_import_is_named(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A module that only the driver has; nothing is lost, and nothing counted."""
    fill(hr, 1)
    (tmp_path / "only_here.py").write_text("def f(body):\n    return body\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = hr.system_proc("p", source="in", to="out", processor="only_here:f")
    engine = SparkEngine.open(master=None, spark=spark)
    processor = processor_of(find("only_here:f"), kind=None, reference="only_here:f")
    (tmp_path / "only_here.py").unlink()
    rows = Rows("in", [0], [1], ["{}"], [None])
    with pytest.raises(SparkUnavailable, match=r"cannot load the processor only_here:f.*local"):
        engine.process(processor, rows, max_body=100, is_separate=False)
    assert made.inspect().procs[0].reclaims == 0


def test_a_large_claim_of_a_frame_function_is_read_and_staged_by_executors(
    hr: Headrace, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails does not say where: then few are taken, until the record is found."""
    monkeypatch.setattr("headrace.pipelines.lanes.LARGE", 100)
    fill(hr, 300)
    made = hr.system_proc(
        "p", source="in", to=["a", "b"], processor="pipeline_jobs:frame", count=100_000
    )
    assert made.run_once(spark=spark) == 300
    assert bodies(hr, "a") == bodies(hr, "b") == [{"n": n * 10, "seq": n} for n in range(300)]
    assert len({record.ts for record in hr.range("a")}) == 1, "it was not one publication"
    hr.commit_many("in", [{"n": n, **({"bad": 1} if n == 120 else {})} for n in range(200)])
    with pytest.raises(ProcDisabled, match="bad"):
        hr.system_proc(
            *("p",),
            source="in",
            to="c",
            processor="pipeline_jobs:frame",
            count=100_000,
            max_reclaims=1,
        ).run_once(spark=spark)
    assert len(bodies(hr, "c")) == 120
    assert made.inspect().procs[0].position == 420
