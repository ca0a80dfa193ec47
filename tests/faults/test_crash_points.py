"""A process that dies at one point of one operation, for every point."""

import pytest

import headrace
from faults.crash_case import CrashCase
from faults.crash_cases import CASES, IS_REPEATABLE, IS_REPEATABLE_IN_PART
from faults.polling import until
from faults.processes import ChildProcesses
from faults.queue_crash_cases import claim


@pytest.mark.parametrize("title", CASES)
def test_operation_killed_at_any_point_is_done_or_not_begun(
    durable_url: str, processes: ChildProcesses, title: str
) -> None:
    """Until COMMIT has returned nothing of it is visible. From then on all of it is."""
    case = CASES[title]
    with headrace.connect(durable_url) as hr:
        points = all_points(hr, case)
        assert len(points) >= (2 if title == "transaction" else 3)
        assert points[-2:] == ["commit", "committed"]
        marks = {point: f"at-{point}" for point in points}
        for mark in marks.values():
            case.prepare(hr, mark)
        child = processes.start(
            "crash", url=durable_url, case=title, marks=[(s, p) for p, s in marks.items()]
        )
        child.await_end()
        for point, mark in marks.items():
            effect = case.effect(hr, mark)
            assert bool(effect) == (point == "committed"), f"killed at {point}: {effect}"
            check_life_goes_on(hr, title, mark, effect)


def all_points(hr: headrace.Headrace, case: CrashCase) -> list[int | str]:
    """The points of the operation, found by running the case to its end once."""
    points: list[int | str] = []

    def probe(operation: str, point: int | str) -> None:
        if operation == case.operation:
            points.append(point)

    case.prepare(hr, "rehearsal")
    before, hr._store.probe = hr._store.probe, probe
    try:
        case.act(hr, "rehearsal")
    finally:
        hr._store.probe = before
    return points


def check_life_goes_on(hr: headrace.Headrace, title: str, mark: str, effect: list[str]) -> None:
    """Another process can do what the dead one did, or continue after it."""
    case = CASES[title]
    if title == "claim":
        # A claim that was made lasts until it expires. If it was not made, the items are free.
        proc = hr.proc(mark)
        claimed = until(proc.claim, "the claim to run out") if effect else proc.claim()
        assert claimed[0].seq == 0
    elif title.startswith("claim"):
        # Items that the dead process claimed stay claimed.
        assert effect == case.effect(hr, mark)
        assert not set(effect) & set(claim(hr, mark, "somebody else", 3))
    elif title in IS_REPEATABLE:
        ids = case.act(hr, mark)
        assert ids == case.effect(hr, mark)
        assert effect in ([], ids)
    elif title in IS_REPEATABLE_IN_PART:
        ids = case.act(hr, mark)
        assert case.effect(hr, mark) == sorted({*effect, *ids})
        assert set(effect) & set(ids) == set(effect[1:2])
    else:
        ids = case.act(hr, mark)
        assert case.effect(hr, mark) == sorted([*effect, *ids])
