"""The runner's logic without an engine: what a lane does with what it is told."""

from collections.abc import Sequence
from typing import Any

import pytest

import headrace
from headrace.errors import InvalidOption
from headrace.pipelines.beats import Pulse
from headrace.pipelines.lanes import Functions, Lane
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import Piece
from headrace.pipelines.rows import Rows


class Told:
    """An engine that answers what it was told to, and remembers what it was asked."""

    name = "inline"

    def __init__(self, *answers: Sequence[Piece]) -> None:
        self._answers = list(answers)
        self.asked: list[list[int]] = []

    def check(self, processor: Processor) -> None:
        pass

    def takes_spans(self, processor: Processor, url: str) -> bool:
        return False

    def process(
        self, processor: Processor, rows: Rows, *, max_body: int, is_separate: bool
    ) -> list[Piece]:
        self.asked.append(list(rows.seqs))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def rest(self) -> None:
        pass


def lane_of(hr: headrace.Headrace, engine: Told, source: str = "in", **options: Any) -> Lane:
    hr.system_proc("p", source=source, to="out", processor="pipeline_jobs:double", **options)
    store = hr._store
    defined = store.run(store.definition("p"))
    return Lane(
        store,
        "p",
        defined.lanes[0],
        engine=engine,
        functions=Functions({}),
        pulse=Pulse(store),
        max_body=1000,
    )


@pytest.fixture
def hr(memory_url: str) -> Any:
    with headrace.connect(memory_url) as client:
        client.commit_many("in", [{"n": n} for n in range(5)])
        yield client


def out(hr: headrace.Headrace) -> list[int]:
    known = [info.name for info in hr.topics()]
    return [record.body["n"] for record in hr.range("out")] if "out" in known else []


def good(first: int, last: int | None = None) -> Piece:
    last = first if last is None else last
    return Piece(first, last, [f'{{"n":{n}}}' for n in range(first, last + 1)])


def bad(seq: int) -> Piece:
    return Piece(seq, seq, error=f"bad {seq}")


def test_nothing_is_acked_that_no_piece_speaks_of(hr: headrace.Headrace) -> None:
    """An engine that forgets records in the middle does not lose them."""
    engine = Told([good(0, 1), good(4)], [good(2)], [good(3, 4)])
    lane = lane_of(hr, engine)
    assert [lane.step().moved for _ in range(4)] == [2, 1, 2, 0]
    assert engine.asked == [[0, 1, 2, 3, 4], [2], [3, 4]]
    assert out(hr) == [0, 1, 2, 3, 4]


def test_an_engine_that_says_nothing_is_an_error(hr: headrace.Headrace) -> None:
    lane = lane_of(hr, Told([good(3, 4)]))
    with pytest.raises(RuntimeError, match="said nothing"):
        lane.step()
    assert out(hr) == []


def test_only_what_failed_is_run_again(hr: headrace.Headrace) -> None:
    """What was processed behind it waits for it, and keeps its place."""
    engine = Told(
        [good(0), bad(1), good(2), bad(3), good(4)],
        [bad(1), good(3)],
        [good(1)],
    )
    lane = lane_of(hr, engine)
    assert [lane.step().what for _ in range(4)] == ["moved", "failed", "moved", "empty"]
    assert engine.asked == [[0, 1, 2, 3, 4], [1, 3], [1]]
    assert out(hr) == [0, 1, 2, 3, 4]


def test_a_new_processor_starts_afresh(hr: headrace.Headrace) -> None:
    engine = Told([bad(0), good(1, 4)], [good(0, 4)])
    lane = lane_of(hr, engine)
    assert lane.step().what == "failed"
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:triple")
    assert lane.step().what == "moved"
    assert engine.asked == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


def test_a_letter_has_all_its_tries(hr: headrace.Headrace) -> None:
    """One that came into the claim late is not buried with those that were tried often."""
    engine = Told(
        [bad(0), good(1)],
        [bad(0), good(2), bad(3), good(4)],
        [bad(3)],
    )
    hr.commit_many("late", [{"n": n} for n in range(2)])
    lane = lane_of(hr, engine, "late", max_reclaims=2, on_max_reclaims_reached="dead_letter")
    assert lane.step().what == "failed"
    hr.commit_many("late", [{"n": n} for n in range(2, 5)])
    assert lane.step().moved == 3
    assert [letter.body["body"]["n"] for letter in hr.range("p-dead")] == [0]
    assert lane.step().what == "failed"
    assert out(hr) == [1, 2]


def test_trouble_of_the_engine_is_not_the_records_fault(hr: headrace.Headrace) -> None:
    """It is asked again under the same claim, and nothing is counted."""
    engine = Told(OSError("executor lost"), OSError("executor lost"), [good(0, 4)])  # type: ignore[arg-type]
    lane = lane_of(hr, engine, max_reclaims=1)
    assert lane.step().moved == 5
    assert hr.proc("p").inspect().reclaims == 0


@pytest.mark.parametrize("count", [2, 1000])
def test_a_change_between_two_looks_counts_for_the_claim(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Said after the lane has looked, and before it claims: the claim is under what was said."""
    engine = Told([good(0, min(count, 5) - 1)])
    lane = lane_of(hr, engine)
    store = hr._store
    claim = store.claim

    def late(*args: Any) -> Any:
        hr.system_proc("p", source="in", to="new", processor="pipeline_jobs:triple", count=count)
        return claim(*args)

    monkeypatch.setattr(store, "claim", late)
    assert lane.step().moved == min(count, 5)
    assert (hr.length("new"), out(hr)) == (min(count, 5), [])
    assert hr.proc("p").inspect().position == min(count, 5)


def test_a_processor_that_is_gone_is_told_and_costs_one_try(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is given back; from then on nothing is claimed until it is there again."""
    lane = lane_of(hr, Told([good(0, 4)]))
    store = hr._store
    claim = store.claim

    def late(*args: Any) -> Any:
        hr.system_proc("p", source="in", to="out", processor="nowhere:nothing")
        return claim(*args)

    monkeypatch.setattr(store, "claim", late)
    for _ in range(3):
        with pytest.raises(InvalidOption, match="nowhere"):
            lane.step()
    info = hr.proc("p").inspect()
    assert (info.reclaims, info.claimed) == (1, None)
    monkeypatch.undo()
    hr.system_proc("p", source="in", to="out", processor="pipeline_jobs:double")
    assert lane.step().moved == 5
