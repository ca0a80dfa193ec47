"""A node against the model: random operations of clients that reach it over HTTP, with crashes.

A client crashes before its request is sent or after its answer was read, and the node restarts.
Transactions of several operations are left out: a node keeps none open.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from headrace.testing.clocks import FakeClock
from headrace.testing.postgres import PrivatePostgres
from headrace.testing.queue_state_machines import QueueMachine
from headrace.testing.state_machines import StoreMachine
from schemas import Schemas
from served_node import ServedNode, Way

# More of the same for a soak: HEADRACE_EXAMPLES=50.
FACTOR = float(os.environ.get("HEADRACE_EXAMPLES", "1"))
STEPS = 40

# Hypothesis takes up to five minutes to make a failure small, and then says what it is.
pytestmark = pytest.mark.timeout(480 + 120 * FACTOR)


ALWAYS = Way("unix", "msgpack", "sqlite")
THOROUGH = [
    Way("tcp", "json", "memory"),
    Way("tcp", "json", "sqlite"),
    Way("unix", "msgpack", "memory"),
    Way("tcp", "json", "postgres"),
    Way("unix", "msgpack", "postgres"),
]

# Of all tests: a store in memory lasts as long as anything refers to it.
_numbers = itertools.count()


class Stores:
    """Serves one empty store after the other by the way that is tested."""

    def __init__(self, request: pytest.FixtureRequest, served: ServedNode, way: Way) -> None:
        self._request = request
        self._served = served
        self._way = way
        self._present = ExitStack()

    def serve(self, clock: FakeClock) -> str:
        """The URL by which clients reach an empty store."""
        make = {"memory": self._memory, "sqlite": self._sqlite, "postgres": self._postgres}
        self._present.enter_context(self._served.serving(make[self._way.store](), clock=clock))
        return self._way.url(self._served)

    def _memory(self) -> str:
        return f"memory://node-state{next(_numbers)}"

    def _sqlite(self) -> str:
        folder: Path = self._request.getfixturevalue("quick_path")
        return f"sqlite:///{folder}/{next(_numbers)}.db"

    def _postgres(self) -> str:
        server: PrivatePostgres = self._request.getfixturevalue("postgres")
        schemas: Schemas = self._request.getfixturevalue("schemas")
        schema = schemas.lend()
        self._present.callback(schemas.release, schema)
        return f"{server.url}?schema={schema}"

    def restart(self) -> None:
        """Serve the store as another incarnation of the node."""
        self._served.restart()

    def end(self) -> None:
        """Serve no store."""
        self._present.close()


@pytest.fixture(
    params=[
        pytest.param(ALWAYS, id=str(ALWAYS)),
        *(pytest.param(way, id=str(way), marks=pytest.mark.thorough) for way in THOROUGH),
    ]
)
def stores(request: pytest.FixtureRequest, served: ServedNode) -> Iterator[Stores]:
    stores = Stores(request, served, request.param)
    yield stores
    stores.end()


class ThroughNode(RuleBasedStateMachine):
    """The part of a machine whose clients reach their store through a node."""

    clock: FakeClock
    driver: Any
    stores: Stores

    def url(self) -> str:
        return self.stores.serve(self.clock)

    def client_options(self) -> dict[str, Any]:
        return {}

    def teardown(self) -> None:
        super().teardown()
        self.stores.end()

    @precondition(lambda self: self.driver.client.capabilities.survives_restart)
    @rule()
    def restart_node(self) -> None:
        """Clients find another incarnation, and go on."""
        self.stores.restart()


def play(machine: type[RuleBasedStateMachine], *, examples: int) -> None:
    many = max(1, round(examples * FACTOR))
    run_state_machine_as_test(
        machine, settings=settings(max_examples=many, stateful_step_count=STEPS)
    )


def test_a_node_agrees_with_the_model(stores: Stores) -> None:
    """Topics and procs through a node answer as the model does and hold what it holds."""

    class Machine(ThroughNode, StoreMachine): ...

    Machine.stores = stores
    play(Machine, examples=60)


def test_queues_of_a_node_agree_with_the_model(stores: Stores) -> None:
    """Queues through a node answer as the model does and hold what it holds."""

    class Machine(ThroughNode, QueueMachine): ...

    Machine.stores = stores
    play(Machine, examples=20)
