"""A process that dies at one point of one operation, for every point there is."""

import pytest

import headrace
from faults.crew import Crew
from faults.queue_scenes import claim
from faults.scene import Scene
from faults.scenes import IS_REPEATABLE, SCENES
from faults.waiting import until


@pytest.mark.parametrize("title", SCENES)
def test_operation_killed_at_any_point_is_done_or_not_begun(
    durable_url: str, crew: Crew, title: str
) -> None:
    """Until COMMIT has returned nothing of it shows; from then on all of it."""
    scene = SCENES[title]
    with headrace.connect(durable_url) as hr:
        points = all_points(hr, scene)
        assert len(points) >= (2 if title == "transaction" else 3)
        assert points[-2:] == ["commit", "committed"]
        stages = {point: f"at-{point}" for point in points}
        for stage in stages.values():
            scene.prepare(hr, stage)
        child = crew.start(
            "crash", url=durable_url, scene=title, stages=[(s, p) for p, s in stages.items()]
        )
        child.await_end()
        for point, stage in stages.items():
            effect = scene.effect(hr, stage)
            assert bool(effect) == (point == "committed"), f"killed at {point}: {effect}"
            check_life_goes_on(hr, title, stage, effect)


def all_points(hr: headrace.Headrace, scene: Scene) -> list[int | str]:
    """Where the operation may be hit, found by playing the scene to its end once."""
    points: list[int | str] = []

    def probe(operation: str, point: int | str) -> None:
        if operation == scene.operation:
            points.append(point)

    scene.prepare(hr, "rehearsal")
    before, hr._store.probe = hr._store.probe, probe
    try:
        scene.act(hr, "rehearsal")
    finally:
        hr._store.probe = before
    return points


def check_life_goes_on(hr: headrace.Headrace, title: str, stage: str, effect: list[str]) -> None:
    """Somebody else can do what the dead one did, or go on behind it."""
    scene = SCENES[title]
    if title == "claim":
        # A claim that was made is held until its time is over; one that was not is free.
        proc = hr.proc(stage)
        taken = until(proc.claim, "the claim to run out") if effect else proc.claim()
        assert taken[0].seq == 0
    elif title.startswith("claim"):
        # What the dead one has stays with it, and nobody else gets it.
        assert effect == scene.effect(hr, stage)
        assert not set(effect) & set(claim(hr, stage, "somebody else", 3))
    elif title in IS_REPEATABLE:
        ids = scene.act(hr, stage)
        assert ids == scene.effect(hr, stage)
        assert effect in ([], ids)
    else:
        ids = scene.act(hr, stage)
        assert scene.effect(hr, stage) == sorted([*effect, *ids])
