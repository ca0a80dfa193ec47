"""Any two concurrent operations are equivalent to one after the other.

The answers of both and the resulting state must be those of the model in one of the two orders,
wherever one operation interrupts the other.
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
from headrace.testing.sync_facade import claim_of

# A handful of pairs each time, others the next time. HEADRACE_EXAMPLES=100 runs them all.
PAIRS = round(20 * float(os.environ.get("HEADRACE_EXAMPLES", "1")))
START = FakeClock().now

pytestmark = pytest.mark.timeout(60 + 10 * PAIRS)


class TopicSample(NamedTuple):
    """The same small store every time, under names of its own."""

    client: Any
    mark: str
    token: str = ""

    def name(self, name: str) -> str:
        return f"{self.mark}{name}"

    def proc(self, name: str) -> headrace.Proc:
        return headrace.Proc(self.client, self.name(name))

    def claim(self) -> headrace.Claim:
        return claim_of(self.client, self.name("p"), self.token)


Act = Callable[[TopicSample], Any]

ACTS: dict[str, Act] = {
    "commit": lambda s: s.client.commit(s.name("in"), {"by": "commit"}),
    "commit to a new topic": lambda s: s.client.commit(s.name("new"), {"by": "commit"}),
    "commit to two": lambda s: s.client.commit([(s.name("out"), {}), (s.name("in"), {})]),
    "commit with a key": lambda s: s.client.commit(s.name("in"), {"n": 1}, key=s.name("k")),
    "commit with that key": lambda s: s.client.commit(s.name("out"), {"n": 2}, key=s.name("k")),
    "ack": lambda s: s.claim().ack(),
    "ack_commit": lambda s: s.claim().ack_commit([(s.name("out"), {"n": 3})]),
    "claim": lambda s: list(s.proc("p").claim(2) or ()),
    "claim for another": lambda s: list(s.proc("q").claim(2) or ()),
    "claim any": lambda s: list(s.client.procs.claim_any([s.name("p"), s.name("q")]) or ()),
    "extend": lambda s: s.claim().extend(),
    "nack": lambda s: s.claim().nack(error="no"),
    "take away": lambda s: s.proc("p").nack(),
    "seek to the start": lambda s: s.proc("p").seek(">"),
    "seek to the end": lambda s: s.proc("p").seek("$>"),
    "delete": lambda s: s.proc("p").delete(),
    "disable": lambda s: s.proc("p").disable(),
    "update": lambda s: s.proc("p").update(max_attempts=5),
    "make": lambda s: s.client.procs.create(s.name("r"), s.name("new"), offset="$>").name,
    "make again": lambda s: s.client.procs.create(s.name("p"), s.name("in"), lease=7).name,
    "range": lambda s: s.client.range(s.name("in"), str(START), str(START + 60_000)),
    "lag": lambda s: s.proc("p").lag(),
}
ALL = list(
    itertools.product(
        itertools.combinations_with_replacement(ACTS, 2), ("claim stands", "claim ran out")
    )
)


def prepare(client: Any, mark: str, clock: FakeClock, *, is_late: bool) -> TopicSample:
    """Three records, a proc with a claim on one of them, and a proc without claims."""
    clock.now = START
    sample = TopicSample(client, mark)
    client.commit_many(sample.name("in"), [{"n": n} for n in range(3)])
    client.commit(sample.name("out"), {"n": 0})
    p = client.procs.create(
        sample.name("p"),
        sample.name("in"),
        max_attempts=1,
        on_exhausted="dead_letter",
    )
    client.procs.create(sample.name("q"), sample.name("in"))
    token = p.claim().token
    clock.advance(20 if is_late else 1)
    return sample._replace(token=token)


def answer(act: Act, sample: TopicSample) -> str:
    """What the act returns or raises, without the names of the sample."""
    try:
        value = act(sample)
    except HeadraceError as error:
        value = error
    return repr(value).replace(sample.mark, "")


def state(sample: TopicSample) -> list[str]:
    """Everything that the sample holds."""
    topics = sample.client.topics.list(prefix=sample.mark)
    records = [sample.client.range(info.name) for info in topics]
    procs = [answer(lambda s, name=name: s.proc(name).info(), sample) for name in "pqr"]
    return [repr((topics, records)).replace(sample.mark, ""), *procs]


def serial(first: Act, second: Act, *, is_late: bool) -> list[str]:
    """The answers of both and the state, one after the other in the model."""
    clock = FakeClock()
    with headrace.connect("memory://", clock=clock) as client:
        sample = prepare(client, "s0_", clock, is_late=is_late)
        return [answer(first, sample), answer(second, sample), *state(sample)]


def test_two_concurrent_operations_are_serialisable(stepped):
    """Every answer and every state is one of those that the two orders give."""
    stepper, clients = stepped.sessions(2)
    marks = itertools.count(1)
    sample = TopicSample(stepped.client, "")

    for names, claim in random.sample(ALL, min(PAIRS, len(ALL))):
        acts = [ACTS[name] for name in names]
        is_late = claim == "claim ran out"
        forth = serial(*acts, is_late=is_late)
        back = serial(*reversed(acts), is_late=is_late)
        allowed = [forth, [back[1], back[0], *back[2:]]]

        def script(number, acts=acts, is_late=is_late):
            nonlocal sample
            sample = prepare(stepped.client, f"s{next(marks)}_", stepped.clock, is_late=is_late)
            return [
                partial(answer, act, sample._replace(client=client))
                for act, client in zip(acts, clients, strict=True)
            ]

        for run in stepper.interleavings(script, interruptions=1):
            assert run.errors == [None, None], (names, claim, run)
            assert [*run.results, *state(sample)] in allowed, (names, claim, run)
