"""The public face: names, signatures, errors."""

import asyncio
import copy
import inspect
import pickle
import subprocess
import sys
import threading
import typing
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import headrace
import headrace.worker
from headrace import aio, errors, moved_names
from headrace.compat import fetchq, gopq, pipeproc, willow
from headrace.compat.aio import fetchq as async_fetchq
from headrace.compat.aio import gopq as async_gopq
from headrace.compat.aio import pipeproc as async_pipeproc
from headrace.compat.aio import willow as async_willow
from headrace.errors import HeadraceError, InvalidOption, InvalidUrl

MAX_NAMES = 45
MAX_CLIENT_NAMES = 35
NOUNS = (
    "topics",
    "procs",
    "queues",
    "limits",
    "locks",
    "counters",
    "sinks",
    "pipelines",
    "tokens",
    "schedules",
    "admin",
)


def nouns(hr: Any) -> list[type]:
    """The classes of the nouns of a client, and of a queue."""
    queue = hr.queue("q")
    found = [getattr(hr, noun) for noun in NOUNS] + [queue.channels, queue.selections]
    return [type(noun) for noun in found]


async def async_nouns() -> list[type]:
    async with headrace.aconnect("memory://") as hr:
        return nouns(hr)


def noun_classes() -> list[tuple[type, type]]:
    with headrace.connect("memory://") as hr:
        return list(zip(nouns(hr), asyncio.run(async_nouns()), strict=True))


WILLOW = ("Willow", "Item", "Limiter", "Lock")
TWINS = [
    *(
        (getattr(headrace, name, None) or getattr(headrace.types, name), getattr(aio, name))
        for name in aio.__all__
    ),
    (gopq.Queue, async_gopq.Queue),
    (gopq.AcknowledgeableQueue, async_gopq.AcknowledgeableQueue),
    (fetchq.FetchQ, async_fetchq.FetchQ),
    (fetchq.QueueRef, async_fetchq.QueueRef),
    (pipeproc.PipeProcClient, async_pipeproc.PipeProcClient),
    (pipeproc.LiveProc, async_pipeproc.LiveProc),
    *((getattr(willow, name), getattr(async_willow, name)) for name in WILLOW),
    *noun_classes(),
]

PLAIN = {
    *(f"Headrace.{name}" for name in ("topic", "queue", "proc", "pipeline", "live", "using")),
    *(f"Headrace.{name}" for name in ("iterate", "lock", "slots", "transaction")),
    *(f"Transaction.{name}" for name in ("topic", "proc", "iterate")),
    *("Topic.iterate", "Topic.to_queue"),
    *("Claim.using", "ClaimedItem.outcome", "FetchQ.status"),
    "AcknowledgeableQueue.register_on_failure_callback",
    "AcknowledgeableQueue.register_behaviour_on_failure",
    "Worker.on",
    *("Admin.watch_clients", "Admin.watch_workers"),
    "PipeProcClient.live_proc",
}
"""Methods that async code does not await: they return references, values, iterators and blocks."""


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and member.__module__.startswith("headrace.")
    }


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name != "self"]


def blocking_words(text: str) -> str:
    for word in ("async for", "async with"):
        text = text.replace(word, word.removeprefix("async "))
    return text.replace("await ", "")


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS, ids=lambda cls: cls.__name__)
def test_both_clients_have_the_same_methods(blocking: type, asynchronous: type) -> None:
    """Names, parameters, defaults and docstrings are equal; only ``await`` differs."""
    ours, theirs = public(blocking), public(asynchronous)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        assert parameters(ours[name]) == parameters(theirs[name]), name
        assert ours[name].__doc__ == blocking_words(theirs[name].__doc__), name
        assert ours[name].__doc__, name


def test_both_connects_take_the_same_arguments() -> None:
    assert parameters(headrace.connect) == parameters(headrace.aconnect)


def test_the_colours_differ_in_await_only() -> None:
    """Async code awaits every method that may ask the store. What it does not await returns a
    reference, a value, an iterator or a block, and is called alike in blocking code."""
    plain = {
        f"{blocking.__name__}.{name}"
        for blocking, asynchronous in TWINS
        for name, function in public(asynchronous).items()
        if not inspect.iscoroutinefunction(function)
    }
    assert plain == PLAIN


def test_a_client_is_awaited_or_entered() -> None:
    async def both() -> None:
        hr = await headrace.aconnect("memory://")
        await hr.close()
        async with headrace.aconnect("memory://") as entered:
            assert entered.status == 1
            assert isinstance(entered.iterate("t"), AsyncIterator)
            assert isinstance(entered.transaction(), AbstractAsyncContextManager)
        assert entered.status == hr.status == 0
        with pytest.raises(InvalidUrl):
            async with headrace.aconnect("kafka://"):
                pass

    asyncio.run(both())


def test_all_names_exist_and_are_sorted() -> None:
    for module in (headrace, headrace.types, headrace.aio):
        assert list(module.__all__) == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert len(headrace.__all__) <= MAX_NAMES


def test_importing_headrace_loads_the_blocking_client_only() -> None:
    """Async code, engines and drivers load when they are first used."""
    late = ("_async", "client._async", "worker.engine", "pipelines.engines", "drivers", "node")
    code = "import sys, headrace; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = [name for name in run.stdout.split() if name.startswith("headrace")]
    assert "headrace.client._sync.queue" in loaded
    packages = tuple(f"headrace.{name}" for name in late)
    assert [name for name in loaded if name.startswith(packages)] == []
    assert "asyncio" not in run.stdout.split()
    assert set(headrace.__all__) <= set(dir(headrace))


def test_a_client_fits_in_the_head() -> None:
    with headrace.connect("memory://") as hr:
        names = [name for name in dir(hr) if not name.startswith("_")]
    assert set(NOUNS) < set(names)
    assert len(names) <= MAX_CLIENT_NAMES, names


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("push", "hr.push"),
        ("create_limit", "hr.limits.create"),
        ("system_proc", "hr.pipelines.create"),
        ("PushResult", "headrace.types.PushResult"),
        ("Acked", "headrace.types.AckResult"),
        ("AsyncQueue", "headrace.aio.Queue"),
        ("ack_queue", "headrace.compat.gopq.ack_queue"),
    ],
)
def test_a_name_that_has_moved_says_where_it_is(name: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"use {new}"):
        getattr(headrace, name)
    with pytest.raises(AttributeError, match=r"has no 'colour'\.$"):
        headrace.colour  # noqa: B018


def test_the_new_places_exist() -> None:
    with headrace.connect("memory://") as hr:
        for path in moved_names._CLIENT.values():
            found: Any = hr
            for part in path.partition("(…")[0].split("."):
                found = (
                    found.topic("t")
                    if part == "topic(name)"
                    else (found.queue("q") if part == "queue(name)" else getattr(found, part))
                )


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
        "ftp://localhost",
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
    assert two.topics.list() == []
    three, four = headrace.connect("memory://shared-here"), headrace.connect("memory://shared-here")
    three.commit("t", {})
    assert four.topic("t").length() == 1


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
            again.nothing  # noqa: B018  # it raises


def test_annotations_resolve() -> None:
    """Type checkers and documentation tools can evaluate every signature."""
    # ``Queue.start_worker`` names what stands above clients, which its module cannot import.
    above = {"Worker": headrace.Worker, "WorkerOptions": headrace.types.WorkerOptions}
    for cls, _ in TWINS:
        for name, function in public(cls).items():
            names = above if function.__qualname__ == "Queue.start_worker" else None
            assert typing.get_type_hints(function, localns=names), name


def test_a_handler_gets_what_its_type_says() -> None:
    """``headrace.Item``, by whatever name: an item to inspect, which cannot be settled."""
    assert headrace.Item is headrace.worker.Item
    assert issubclass(headrace.ClaimedItem, headrace.Item)
    assert issubclass(aio.ClaimedItem, headrace.Item)
    seen: list[headrace.Item] = []
    done = threading.Event()

    def handle(item: headrace.Item) -> None:
        seen.append(item)
        done.set()

    with headrace.connect("memory://") as hr:
        hr.start_worker("q", handle)
        hr.push("q", 1)
        assert done.wait(20)
    assert [type(item) for item in seen] == [headrace.Item]
    for verb in ("complete", "reject", "release", "extend"):
        assert not hasattr(headrace.Item, verb)
