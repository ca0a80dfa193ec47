"""Any two operations at once are as good as one after the other.

What both answered and what the store then holds must be what the model gives for one of
the two orders, wherever one of the operations interrupts the other.
"""

import itertools
import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

import headrace
from headrace.errors import HeadraceError
from headrace.testing.clocks import FakeClock

# A handful of pairs each time, others the next time; HEADRACE_EXAMPLES=100 takes them all.
PAIRS = round(20 * float(os.environ.get("HEADRACE_EXAMPLES", "1")))
START = FakeClock().now

pytestmark = pytest.mark.timeout(60 + 10 * PAIRS)


class Scene(NamedTuple):
    """The same small store every time, under names of its own."""

    client: Any
    mark: str
    token: str = ""

    def name(self, name: str) -> str:
        return f"{self.mark}{name}"

    def proc(self, name: str) -> headrace.Proc:
        return headrace.Proc(self.client, self.name(name), self.name("in"))


Act = Callable[[Scene], Any]

ACTS: dict[str, Act] = {
    "commit": lambda s: s.client.commit(s.name("in"), {"by": "commit"}),
    "commit to a new topic": lambda s: s.client.commit(s.name("new"), {"by": "commit"}),
    "commit to two": lambda s: s.client.commit([(s.name("out"), {}), (s.name("in"), {})]),
    "commit with a key": lambda s: s.client.commit(s.name("in"), {"n": 1}, key=s.name("k")),
    "commit with that key": lambda s: s.client.commit(s.name("out"), {"n": 2}, key=s.name("k")),
    "ack": lambda s: s.proc("p").ack(s.token),
    "ack_commit": lambda s: s.proc("p").ack_commit(s.token, [(s.name("out"), {"n": 3})]),
    "claim": lambda s: list(s.proc("p").claim(2) or ()),
    "claim for another": lambda s: list(s.proc("q").claim(2) or ()),
    "available_proc": lambda s: list(s.client.available_proc([s.name("p"), s.name("q")]) or ()),
    "extend": lambda s: s.proc("p").extend(s.token),
    "reclaim": lambda s: s.proc("p").reclaim(s.token, error="no"),
    "take away": lambda s: s.proc("p").reclaim(),
    "seek to the start": lambda s: s.proc("p").seek(">"),
    "seek to the end": lambda s: s.proc("p").seek("$>"),
    "destroy": lambda s: s.proc("p").destroy(),
    "disable": lambda s: s.proc("p").disable(),
    "update": lambda s: s.proc("p").update(max_reclaims=5),
    "make": lambda s: s.client.proc(s.name("r"), topic=s.name("new"), offset="$>").name,
    "make again": lambda s: s.client.proc(s.name("p"), topic=s.name("in"), reclaim_timeout=7).name,
    "range": lambda s: s.client.range(s.name("in"), str(START), str(START + 60_000)),
    "lag": lambda s: s.proc("p").lag(),
}
ALL = list(
    itertools.product(
        itertools.combinations_with_replacement(ACTS, 2), ("claim stands", "claim ran out")
    )
)


def prepare(client: Any, mark: str, clock: FakeClock, *, is_late: bool) -> Scene:
    """Three records, a proc with a claim on one of them, and one that has not begun."""
    clock.now = START
    scene = Scene(client, mark)
    client.commit_many(scene.name("in"), [{"n": n} for n in range(3)])
    client.commit(scene.name("out"), {"n": 0})
    p = client.proc(
        scene.name("p"),
        topic=scene.name("in"),
        max_reclaims=1,
        on_max_reclaims_reached="dead_letter",
    )
    client.proc(scene.name("q"), topic=scene.name("in"))
    token = p.claim().token
    clock.advance(20 if is_late else 1)
    return scene._replace(token=token)


def answer(act: Act, scene: Scene) -> str:
    """What the act returns or raises, without the scene's names."""
    try:
        value = act(scene)
    except HeadraceError as error:
        value = error
    return repr(value).replace(scene.mark, "")


def state(scene: Scene) -> list[str]:
    """All that the scene holds."""
    topics = scene.client.topics(prefix=scene.mark)
    records = [scene.client.range(info.name) for info in topics]
    procs = [answer(lambda s, name=name: s.proc(name).inspect(), scene) for name in "pqr"]
    return [repr((topics, records)).replace(scene.mark, ""), *procs]


def serial(first: Act, second: Act, *, is_late: bool) -> list[str]:
    """The answers of both and the state, one after the other in the model."""
    clock = FakeClock()
    with headrace.connect("memory://", clock=clock) as client:
        scene = prepare(client, "s0_", clock, is_late=is_late)
        return [answer(first, scene), answer(second, scene), *state(scene)]


def test_two_operations_at_once_are_as_one_after_the_other(stage):
    """Every answer and every state is one of those that the two orders give."""
    stepper, clients = stage.act(2)
    marks = itertools.count(1)
    scene = Scene(stage.client, "")

    for names, claim in random.sample(ALL, min(PAIRS, len(ALL))):
        acts = [ACTS[name] for name in names]
        is_late = claim == "claim ran out"
        forth = serial(*acts, is_late=is_late)
        back = serial(*reversed(acts), is_late=is_late)
        allowed = [forth, [back[1], back[0], *back[2:]]]

        def script(number, acts=acts, is_late=is_late):
            nonlocal scene
            scene = prepare(stage.client, f"s{next(marks)}_", stage.clock, is_late=is_late)
            return [
                partial(answer, act, scene._replace(client=client))
                for act, client in zip(acts, clients, strict=True)
            ]

        for run in stepper.interleavings(script, interruptions=1):
            assert run.errors == [None, None], (names, claim, run)
            assert [*run.results, *state(scene)] in allowed, (names, claim, run)
