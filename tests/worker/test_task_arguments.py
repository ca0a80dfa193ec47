"""Arguments of tasks that are more than JSON values."""

import enum
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Protocol, cast

import msgspec
import pydantic
import pytest
from worker_fixtures import Signal, WorkerEnv, events_of

from headrace.errors import InvalidBody
from headrace.worker import App, Complete
from headrace.worker.items import item_of


@dataclass
class Address:
    street: str
    since: datetime | None = None


class Order(msgspec.Struct):
    id: uuid.UUID
    total: Decimal
    to: list[Address] = []


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2)
    born: date


class Colour(enum.StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Unknown:
    """A class that nothing here can store."""

    def __repr__(self) -> str:  # no address: it is part of the ids of tests
        return "Unknown()"


class Readable(Protocol):
    def read(self) -> bytes: ...


NO_DATE = cast("date", None)
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    return App(client=env.hr)


def declared(app: App, hint: Any, run: Any = None) -> Any:
    """A task with one argument of that type."""

    def take(value: Any) -> None:
        if run is not None:
            run(value)

    take.__annotations__ = {"value": hint}
    return app.task(queue="mail", name="take")(take)


@pytest.mark.parametrize(
    ("hint", "value", "stored"),
    [
        (Address, Address("x", NOON), {"street": "x", "since": "2026-11-18T12:00:00Z"}),
        (
            Order,
            Order(ID, Decimal("1.50"), [Address("x")]),
            {"id": str(ID), "total": "1.50", "to": [{"street": "x", "since": None}]},
        ),
        (
            Person,
            Person(name="ann", born=date(2000, 1, 2)),
            {"name": "ann", "born": "2000-01-02"},
        ),
        (list[Person], [Person(name="ann", born=date(2000, 1, 2))], None),
        (Address | None, None, None),
        (datetime, NOON, "2026-11-18T12:00:00Z"),
        (timedelta, timedelta(seconds=90), "PT90S"),
        (uuid.UUID, ID, str(ID)),
        (Decimal, Decimal("0.10"), "0.10"),
        (bytes, b"\0\xff", "AP8="),
        (Colour, Colour.RED, "red"),
        (Point, Point(1, 2), [1, 2]),
        (set[int], {1}, [1]),
        (dict[int, date], {1: date(2000, 1, 2)}, {"1": "2000-01-02"}),
        (tuple[int, str], (1, "x"), [1, "x"]),
        (str, "text", "text"),
        (float, 1, 1),
        (dict[str, Any], {"a": [1, None]}, {"a": [1, None]}),
        (Sequence[str], ["a"], ["a"]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (Literal["a", "b"], "b", "b"),
        (Any, {"a": 1}, {"a": 1}),
        (Readable, {"a": 1}, {"a": 1}),
    ],
    ids=str,
)
def test_an_argument_comes_back_as_it_was(
    env: WorkerEnv, app: App, hint: Any, value: Any, stored: Any
) -> None:
    seen = Signal()
    task = declared(app, hint, seen)
    id = task.push(value)
    if stored is not None:
        assert json.loads(env.item(id).payload)["args"] == [stored]
    env.workers += app.work()  # type: ignore[arg-type]  # a blocking one
    [found] = seen.wait()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (str, 5, "Expected `str`, got `int`"),
        (int, "5", "Expected `int`, got `str`"),
        (int, True, "Expected `int`, got `bool`"),
        (list[str], ["a", 1], r"Expected `str`, got `int` - at `\$\[1\]`"),
        (Literal["a"], "c", "Invalid enum value 'c'"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "Expected `int` >= 1"),
        (datetime, "soon", "Invalid RFC3339"),
        (Address, {"strasse": "x"}, "missing required field `street`"),
        (Address, Address(5), "Expected `str`, got `int`"),  # type: ignore[arg-type]
        (Person, {"name": "a", "born": "2000-01-02"}, "at least 2 characters"),
        (Address, Unknown(), "a Unknown is no JSON value"),
        (dict[str, int], {1: 1}, "Expected `str`"),
    ],
    ids=str,
)
def test_one_that_does_not_fit_is_refused_where_it_is_pushed(
    env: WorkerEnv, app: App, hint: Any, value: Any, words: str
) -> None:
    with pytest.raises(InvalidBody, match=words) as caught:
        declared(app, hint).push(value)
    assert caught.value.path == "$.args[0]"
    message = str(caught.value)
    assert message.startswith("task 'take' cannot be called so: argument value: ")
    assert "Its signature is take(value: " in message
    assert not env.hr.queues.list()


@pytest.mark.parametrize("hint", [Unknown, Any, "Nowhere"], ids=str)
def test_what_nothing_can_store_is_no_json(app: App, hint: Any) -> None:
    with pytest.raises(InvalidBody) as caught:
        declared(app, hint).push(Unknown())
    assert caught.value.path == "$.args[0]"


def test_all_kinds_of_parameters(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def take(
        first: date,
        /,
        second: date,
        *more: date,
        named: date,
        kept: date = NO_DATE,
        **rest: date,
    ) -> None:
        seen((first, second, more, named, kept, rest))

    days = [date(2000, 1, n) for n in range(1, 8)]
    take.push(days[0], days[1], days[2], days[3], named=days[4], other=days[5])
    env.workers += app.work()  # type: ignore[arg-type]  # a blocking one
    [found] = seen.wait()
    assert found == (days[0], days[1], (days[2], days[3]), days[4], None, {"other": days[5]})
    with pytest.raises(InvalidBody) as caught:
        take.push(days[0], days[1], named=days[4], other=5)  # type: ignore[arg-type]  # that is the mistake
    assert caught.value.path == "$.kwargs.other"


def test_a_stored_call_that_no_longer_fits_is_dead(env: WorkerEnv, app: App) -> None:
    task = declared(app, Address)
    worker = env.work(app.handler("mail"))
    data = events_of(worker, "data")
    env.push({"task": "take", "args": [{"city": "x"}], "kwargs": {}})
    data.wait()
    [dead] = env.dead()
    failure = item_of(dead.item).last_error
    assert failure is not None
    assert failure.type == "WrongArguments"
    assert "argument value: Object missing required field `street`" in failure.message
    assert task.name in failure.message


def test_a_push_in_then_and_a_function_of_the_arguments(env: WorkerEnv, app: App) -> None:
    """The function of the channel gets the arguments as they are."""
    seen = Signal()

    @app.task(queue="mail", channel=lambda address: {"street": address.street})
    def second(address: Address) -> None:
        seen(address)

    @app.task(queue="mail")
    def first() -> Complete:
        return Complete(then=second.as_push(Address("x")))

    env.workers += app.work()  # type: ignore[arg-type]  # a blocking one
    first.push()
    assert seen.wait() == [Address("x")]


def test_a_call_here_is_not_changed(app: App) -> None:
    seen = Signal()
    unknown = Unknown()
    declared(app, Address, seen)(unknown)
    assert seen.seen == [unknown]
