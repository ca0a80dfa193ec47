"""The runner's logic without an engine: what a proc runner does with an engine's outcomes."""

from collections.abc import Sequence
from typing import Any

import pytest

import headrace
from headrace.errors import InvalidOption
from headrace.pipelines.engine_calls import MAX_ENGINE_FAILURES
from headrace.pipelines.heartbeat import PipelineHeartbeat
from headrace.pipelines.proc_runner import ProcRunner
from headrace.pipelines.processor_registry import ProcessorRegistry
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import RangeOutcome
from headrace.pipelines.rows import Rows
from headrace.pipelines.trust import Trust


class ScriptedEngine:
    """An engine that returns given outcomes, and remembers the rows of each call."""

    name = "inline"

    def __init__(self, *answers: Sequence[RangeOutcome]) -> None:
        self._answers = list(answers)
        self.asked: list[list[int]] = []
        self.is_dead = False

    def check(self, processor: Processor) -> None:
        pass

    def can_partition(self, processor: Processor, url: str) -> bool:
        return False

    def check_alive(self) -> None:
        if self.is_dead:
            raise OSError("no executor at all")

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        max_body: int,
        is_separate: bool,
        timeout: float | None,
    ) -> list[RangeOutcome]:
        self.asked.append(list(rows.seqs))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def end_thread(self) -> None:
        pass


def proc_runner_of(
    hr: headrace.Headrace, engine: ScriptedEngine, source: str = "in", **options: Any
) -> ProcRunner:
    hr.pipelines.create("p", source=source, to="out", processor="pipeline_jobs:double", **options)
    store = hr._store
    defined = store.run(store.pipelines.definition("p"))
    return ProcRunner(
        store,
        "p",
        defined.procs[0],
        engine=engine,
        processors=ProcessorRegistry({}, Trust(["pipeline_jobs", "nowhere"])),
        heartbeat=PipelineHeartbeat(store),
        max_body=1000,
    )


@pytest.fixture
def hr(memory_url: str) -> Any:
    with headrace.connect(memory_url) as client:
        client.commit_many("in", [{"n": n} for n in range(5)])
        yield client


def out(hr: headrace.Headrace) -> list[int]:
    known = [info.name for info in hr.topics.list()]
    return [record.body["n"] for record in hr.range("out")] if "out" in known else []


def good(first: int, last: int | None = None) -> RangeOutcome:
    last = first if last is None else last
    return RangeOutcome(first, last, [f'{{"n":{n}}}' for n in range(first, last + 1)])


def bad(seq: int) -> RangeOutcome:
    return RangeOutcome(seq, seq, error=f"bad {seq}")


def test_a_record_without_an_outcome_is_not_acked(hr: headrace.Headrace) -> None:
    """An engine that forgets records in the middle does not lose them."""
    engine = ScriptedEngine([good(0, 1), good(4)], [good(2)], [good(3, 4)])
    runner = proc_runner_of(hr, engine)
    assert [runner.step().moved for _ in range(4)] == [2, 1, 2, 0]
    assert engine.asked == [[0, 1, 2, 3, 4], [2], [3, 4]]
    assert out(hr) == [0, 1, 2, 3, 4]


def test_an_engine_without_outcomes_is_an_error(hr: headrace.Headrace) -> None:
    runner = proc_runner_of(hr, ScriptedEngine([good(3, 4)]))
    with pytest.raises(RuntimeError, match="returned nothing"):
        runner.step()
    assert out(hr) == []


def test_only_what_failed_is_run_again(hr: headrace.Headrace) -> None:
    """What was processed behind it waits for it, and keeps its place."""
    engine = ScriptedEngine(
        [good(0), bad(1), good(2), bad(3), good(4)],
        [bad(1), good(3)],
        [good(1)],
    )
    runner = proc_runner_of(hr, engine)
    assert [runner.step().kind for _ in range(4)] == ["moved", "failed", "moved", "empty"]
    assert engine.asked == [[0, 1, 2, 3, 4], [1, 3], [1]]
    assert out(hr) == [0, 1, 2, 3, 4]


def test_a_new_processor_starts_afresh(hr: headrace.Headrace) -> None:
    engine = ScriptedEngine([bad(0), good(1, 4)], [good(0, 4)])
    runner = proc_runner_of(hr, engine)
    assert runner.step().kind == "failed"
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:triple")
    assert runner.step().kind == "moved"
    assert engine.asked == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


def test_a_letter_has_all_its_tries(hr: headrace.Headrace) -> None:
    """One that came into the claim late is not buried with those that were tried often."""
    engine = ScriptedEngine(
        [bad(0), good(1)],
        [bad(0), good(2), bad(3), good(4)],
        [bad(3)],
    )
    hr.commit_many("late", [{"n": n} for n in range(2)])
    runner = proc_runner_of(hr, engine, "late", max_attempts=2, on_exhausted="dead_letter")
    assert runner.step().kind == "failed"
    hr.commit_many("late", [{"n": n} for n in range(2, 5)])
    assert runner.step().moved == 3
    assert [letter.body["body"]["n"] for letter in hr.range("p-dead")] == [0]
    assert runner.step().kind == "failed"
    assert out(hr) == [1, 2]


def test_trouble_of_the_engine_is_not_the_records_fault(hr: headrace.Headrace) -> None:
    """It is called again under the same claim, and no failure is counted."""
    engine = ScriptedEngine(OSError("executor lost"), OSError("executor lost"), [good(0, 4)])
    runner = proc_runner_of(hr, engine, max_attempts=1)
    assert runner.step().moved == 5
    assert hr.proc("p").info().attempts == 0


@pytest.mark.parametrize("count", [2, 1000])
def test_a_definition_changed_before_the_claim_applies_to_it(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Changed after the runner has read the definition, and before it claims."""
    engine = ScriptedEngine([good(0, min(count, 5) - 1)])
    runner = proc_runner_of(hr, engine)
    store = hr._store
    claim = store.procs.claim

    def late(*args: Any) -> Any:
        hr.pipelines.create(
            "p", source="in", to="new", processor="pipeline_jobs:triple", count=count
        )
        return claim(*args)

    monkeypatch.setattr(store.procs, "claim", late)
    assert runner.step().moved == min(count, 5)
    assert (hr.topic("new").length(), out(hr)) == (min(count, 5), [])
    assert hr.proc("p").info().position == min(count, 5)


def test_a_processor_that_cannot_be_imported_costs_one_try(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is released; nothing is claimed until the processor can be imported again."""
    runner = proc_runner_of(hr, ScriptedEngine([good(0, 4)]))
    store = hr._store
    claim = store.procs.claim

    def late(*args: Any) -> Any:
        hr.pipelines.create("p", source="in", to="out", processor="nowhere:nothing")
        return claim(*args)

    monkeypatch.setattr(store.procs, "claim", late)
    for _ in range(3):
        with pytest.raises(InvalidOption, match="nowhere"):
            runner.step()
    info = hr.proc("p").info()
    assert (info.attempts, info.claimed) == (1, None)
    monkeypatch.undo()
    hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
    assert runner.step().moved == 5


TROUBLE: Any = OSError("executor lost")


def test_a_record_that_ends_its_executor_is_found(hr: headrace.Headrace) -> None:
    """By halves, each tried once; the record alone as often as the claim before it is blamed."""
    engine = ScriptedEngine(
        *[TROUBLE] * MAX_ENGINE_FAILURES,
        [good(0, 1)],
        *[TROUBLE] * (1 + MAX_ENGINE_FAILURES),
        [good(3, 4)],
        *[TROUBLE] * MAX_ENGINE_FAILURES,
    )
    runner = proc_runner_of(hr, engine, max_attempts=1, on_exhausted="dead_letter")
    assert [runner.step().moved for _ in range(3)] == [2, 3, 0]
    alone = [[2]] * MAX_ENGINE_FAILURES
    assert engine.asked == [*[[0, 1, 2, 3, 4]] * 3, [0, 1], [2, 3, 4], *alone, [3, 4], *alone]
    assert out(hr) == [0, 1, 3, 4]
    [letter] = hr.range("p-dead")
    assert (letter.body["body"], letter.body["error"]) == ({"n": 2}, "OSError: executor lost")


def test_no_record_is_blamed_if_the_engine_can_do_nothing(hr: headrace.Headrace) -> None:
    """The claim is kept, and processed when the engine is back."""
    engine = ScriptedEngine(*[TROUBLE] * 8, [good(0, 4)])
    engine.is_dead = True
    runner = proc_runner_of(hr, engine, max_attempts=1, on_exhausted="dead_letter")
    with pytest.raises(OSError, match="no executor at all"):
        runner.step()
    first = hr.proc("p").info()
    assert (first.attempts, first.claimed is None) == (0, False)
    assert runner.step().moved == 5
    assert (out(hr), hr.proc("p").info().attempts) == ([0, 1, 2, 3, 4], 0)


def test_a_claim_that_was_kept_may_be_lost_meanwhile(hr: headrace.Headrace) -> None:
    engine = ScriptedEngine(*[TROUBLE] * 8, [good(0, 4)])
    engine.is_dead = True
    runner = proc_runner_of(hr, engine)
    with pytest.raises(OSError, match="no executor"):
        runner.step()
    hr.proc("p").nack()
    assert runner.step().moved == 5
