"""The public face: names, signatures, the process default, errors."""

import asyncio
import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

import headrace
from headrace import api, errors
from headrace.client.procs import AsyncClaim, AsyncProc, Claim, Proc
from headrace.errors import HeadraceError, InvalidOption, InvalidUrl, NotConnected

TWINS = [
    (headrace.Headrace, headrace.AsyncHeadrace),
    (Proc, AsyncProc),
    (Claim, AsyncClaim),
    (headrace.Transaction, headrace.AsyncTransaction),
    (headrace.Live, headrace.AsyncLive),
    (headrace.Queue, headrace.AsyncQueue),
    (headrace.Item, headrace.AsyncItem),
    (headrace.DeadLetters, headrace.AsyncDeadLetters),
    (headrace.SimpleQueue, headrace.AsyncSimpleQueue),
    (headrace.AckQueue, headrace.AsyncAckQueue),
    (headrace.Topic, headrace.AsyncTopic),
    (headrace.Replay, headrace.AsyncReplay),
    (headrace.Follower, headrace.AsyncFollower),
    (headrace.SystemProc, headrace.AsyncSystemProc),
    (headrace.Lock, headrace.AsyncLock),
    (headrace.Slots, headrace.AsyncSlots),
]
FUNCTIONS = [
    "ack_queue",
    "acquire",
    "available_proc",
    "change_limit",
    "clients",
    "commit",
    "commit_many",
    "compute_stats",
    "consolidate_stats",
    "counters",
    "create",
    "create_limit",
    "delete_limit",
    "diagnose",
    "drop",
    "ids",
    "info",
    "iterate",
    "keep",
    "length",
    "limit",
    "limit_usage",
    "limits",
    "live",
    "lock",
    "locks",
    "maintain",
    "match_limits",
    "override_limit",
    "pause",
    "proc",
    "procs",
    "push",
    "push_many",
    "queue",
    "queue_defaults",
    "queues",
    "range",
    "ref",
    "register_worker",
    "release_lock",
    "resume",
    "revrange",
    "set_counter",
    "set_limit",
    "set_queue_defaults",
    "settle",
    "simple_queue",
    "sink",
    "sinks",
    "stats",
    "system_proc",
    "system_procs",
    "topic",
    "topic_info",
    "topics",
    "transaction",
    "try_limit",
    "unique_ack_queue",
    "unique_queue",
    "update",
    "upsert",
    "upsert_many",
    "using",
    "wait_for_procs",
    "workers",
]


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and member.__module__.startswith("headrace.")
    }


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name != "self"]


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS, ids=lambda cls: cls.__name__)
def test_both_clients_have_the_same_methods(blocking: type, asynchronous: type) -> None:
    """Names, parameters, defaults and docstrings are equal; only ``await`` differs."""
    ours, theirs = public(blocking), public(asynchronous)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        assert parameters(ours[name]) == parameters(theirs[name]), name
        assert ours[name].__doc__ == theirs[name].__doc__, name
        assert ours[name].__doc__, name


def test_both_connects_take_the_same_arguments() -> None:
    assert parameters(headrace.connect) == parameters(headrace.aconnect)


def test_what_does_io_is_awaitable() -> None:
    """All but ``status`` and ``iterate``, which need no waiting to begin with."""
    plain = {
        name
        for name, f in public(headrace.AsyncHeadrace).items()
        if not inspect.iscoroutinefunction(f)
    }
    assert plain == {
        "status",
        "iterate",
        "live",
        "lock",
        "register_worker",
        "sink",
        "topic",
        "transaction",
        "using",
    }


def test_all_names_exist_and_are_sorted() -> None:
    assert list(headrace.__all__) == sorted(headrace.__all__)
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None


def test_every_client_method_is_a_function_of_the_module() -> None:
    assert set(FUNCTIONS) == set(public(headrace.Headrace)) - {"close", "status"}
    for name in FUNCTIONS:
        expected = parameters(getattr(headrace.Headrace, name))
        assert parameters(getattr(headrace, name)) == expected or name == "commit"
    assert parameters(headrace.commit) == parameters(headrace.Headrace.commit)


@pytest.fixture
def no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_default", None)


@pytest.mark.usefixtures("no_default")
def test_before_connect_every_function_says_so() -> None:
    """And the status is 0."""
    assert headrace.status() == 0
    for name in FUNCTIONS:
        function = getattr(headrace, name)
        required = [
            p for p in inspect.signature(function).parameters.values() if p.default is p.empty
        ]
        with pytest.raises(NotConnected, match=r"headrace\.connect\(url\) first") as caught:
            function(*["x"] * len(required))
        assert caught.value.code == "no_active_node"


@pytest.mark.usefixtures("no_default")
def test_the_first_open_client_is_the_process_default() -> None:
    first = headrace.connect("memory://")
    second = headrace.connect("memory://")
    rid = headrace.commit("t", {"n": 1})
    assert [record.id for record in first.range("t")] == [rid]
    assert second.topics() == []
    assert headrace.length("t") == 1
    assert headrace.status() == headrace.Status.READY == 1
    headrace.close()
    assert (first.status(), second.status(), headrace.status()) == (0, 1, 0)
    third = headrace.connect("memory://")
    headrace.commit("t", {})
    assert third.length("t") == 1


@pytest.mark.usefixtures("no_default")
def test_an_async_client_is_never_the_default() -> None:
    asyncio.run(headrace.aconnect("memory://"))
    assert headrace.status() == 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "flow.db",
        None,
        5,
        "sqlite:/flow.db",
        "sqlite://flow.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///x.db?colour=red",
        "sqlite:///x.db?prefix=No-Good",
        "memory://?prefix=x",
        "kafka://localhost",
        "http://localhost",
        "postgresql://localhost/db?colour=red",
        "postgresql://localhost/db?schema=Upper",
        "postgresql://[::1/db",
    ],
    ids=repr,
)
def test_a_wrong_url_is_refused_with_what_to_write(url: Any) -> None:
    """Blocking and async alike, and nothing is created."""
    with pytest.raises(InvalidUrl) as caught:
        headrace.connect(url)
    assert caught.value.code == "invalid_url"
    assert len(str(caught.value)) > 30
    with pytest.raises(InvalidUrl):
        asyncio.run(headrace.aconnect(url))


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "none"},
        {"migrate": "never"},
        {"patience": -1},
        {"patience": "x"},
        {"max_body": 0},
        {"max_body": "x"},
    ],
    ids=repr,
)
def test_a_wrong_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        headrace.connect("memory://", **options)
    assert caught.value.option == next(iter(options))


def test_memory_stores_are_private_unless_named() -> None:
    one, two = headrace.connect("memory://"), headrace.connect("memory://")
    one.commit("t", {})
    assert two.topics() == []
    three, four = headrace.connect("memory://shared-here"), headrace.connect("memory://shared-here")
    three.commit("t", {})
    assert four.length("t") == 1


def classes() -> list[type[HeadraceError]]:
    return [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, HeadraceError)]


def test_error_codes_are_unique() -> None:
    codes = [cls.code for cls in classes()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_an_error_survives_pickling_and_copying(cls: type[HeadraceError]) -> None:
    """Across processes with its attributes, as Spark and process pools need."""
    error = cls("the message", topic="t", seq=5)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert (str(again), again.topic, again.seq) == ("the message", "t", 5)
        with pytest.raises(AttributeError):
            again.nothing  # noqa: B018


def test_annotations_resolve() -> None:
    """Type checkers and documentation tools can evaluate every signature."""
    for cls, _ in TWINS:
        for name, function in public(cls).items():
            assert typing.get_type_hints(function), name
