"""Every public method with arbitrary arguments: only our errors and ``TypeError`` come out.

Methods are found by introspection, so a new one is tested from its first day.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import signal
import traceback
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import values
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headrace
from headrace import worker
from headrace.compat import fetchq, gopq
from headrace.compat.aio import fetchq as async_fetchq
from headrace.compat.aio import gopq as async_gopq
from headrace.compat.gopq_values import Location
from headrace.errors import HeadraceError
from headrace.testing.sync_facade import ClientMode, SyncFacade, connect, shut

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "0"))
HANG_SECONDS = 20
# To open a store takes longer than to call it.
CALLS = 6
_numbers = itertools.count()

NOUNS = ("topics", "procs", "queues", "limits", "locks", "counters", "sinks", "pipelines", "admin")

# How to get one object of each class with methods. ``n`` makes unused names.
MAKERS: dict[str, Callable[[Any, str], Any]] = {
    "Headrace": lambda hr, n: hr,
    "Topic": lambda hr, n: hr.topic("t"),
    "Queue": lambda hr, n: hr.queue(f"q{n}"),
    "Proc": lambda hr, n: hr.procs.create(f"p{n}", "t"),
    "Claim": lambda hr, n: hr.procs.create(f"p{n}", "t").claim(2),
    "ClaimedItem": lambda hr, n: _item(hr, f"i{n}"),
    "DeadLetters": lambda hr, n: hr.queue(f"q{n}").dead,
    "Live": lambda hr, n: hr.live("t"),
    "Lock": lambda hr, n: hr.lock({"lock": n}, wait=0),
    "Slots": lambda hr, n: hr.slots({"slots": n}),
    "Transaction": lambda hr, n: hr.transaction(),
    **{noun.capitalize(): lambda hr, n, noun=noun: getattr(hr, noun) for noun in NOUNS},
    "Channels": lambda hr, n: hr.queue(f"q{n}").channels,
    "Selections": lambda hr, n: hr.queue(f"q{n}").selections,
    "Pipeline": lambda hr, n: hr.pipelines.create(f"sp{n}", source="t", processor=dict),
    "Follower": lambda hr, n: hr.topic("t").to_queue(f"f{n}"),
    "Replay": lambda hr, n: hr.topic("t").replay(f"f{n}"),
    "gopq Queue": lambda hr, n: _gopq(hr, "Queue", n),
    "gopq AcknowledgeableQueue": lambda hr, n: _gopq(hr, "AcknowledgeableQueue", n),
    "fetchq FetchQ": lambda hr, n: _fetchq(hr),
    "fetchq QueueRef": lambda hr, n: _fetchq(hr).ref(f"q{n}"),
}
# Not for users, ended otherwise, or meant to run until they are stopped.
LEFT_OUT = {
    "Headrace.close",
    "fetchq FetchQ.close",
    "fetchq FetchQ.connect",
    "gopq Queue.close",
    "gopq AcknowledgeableQueue.close",
    "Claim.count",
    "Claim.index",
    "Follower.run",
    "Follower.start",
    "Pipeline.run",
    "Pipeline.start",
}


def _classes() -> dict[str, type]:
    """The classes that both colours have, by name.

    A worker is made by ``start_worker``; a node is a process, and its methods have no arguments.
    """
    with headrace.connect("memory://") as hr:
        queue = hr.queue("q")
        nouns = [MAKERS[noun](hr, "") for noun in MAKERS if noun.lower() in NOUNS]
        found = [type(noun) for noun in (*nouns, queue.channels, queue.selections)]
    found += [
        getattr(headrace, name, None) or getattr(headrace.types, name)
        for name in headrace.aio.__all__
        if name not in ("Worker", "Node", "spawn")
    ]
    return {
        **{cls.__name__.removeprefix("Client"): cls for cls in found},
        "gopq Queue": gopq.Queue,
        "gopq AcknowledgeableQueue": gopq.AcknowledgeableQueue,
        "fetchq FetchQ": fetchq.FetchQ,
        "fetchq QueueRef": fetchq.QueueRef,
    }


CLASSES = _classes()
METHODS = [
    f"{name}.{method}"
    for name, cls in CLASSES.items()
    for method in dir(cls)
    if not method.startswith("_")
    and callable(getattr(cls, method, None))
    and f"{name}.{method}" not in LEFT_OUT
]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "typed": headrace.typed,
    "where": headrace.where,
    "Doc": headrace.Doc,
    "KeyValues": headrace.KeyValues,
    "Query": headrace.types.Query,
    "Backoff": headrace.Backoff,
    "AckOpts": gopq.AckOpts,
    "App": worker.App,
    **{
        f"{name}.{method}": getattr(cls, method)
        for module in (headrace, headrace.types)
        for name in module.__all__
        if inspect.isclass(cls := getattr(module, name)) and name not in CLASSES
        for method in vars(cls)
        if isinstance(vars(cls)[method], (classmethod, staticmethod)) and method[0] != "_"
    },
}


def _item(hr: Any, queue: str) -> Any:
    hr.push(queue, {"n": 1})
    [item] = hr.queue(queue).claim()
    return item


def _gopq(hr: Any, name: str, number: str) -> Any:
    """A queue of gopq on the client of the test."""
    place = Location("", f"k{number}", is_private=False)
    reference = hr.queues.create(place.name)
    if not isinstance(hr, SyncFacade):
        return getattr(gopq, name)(hr, reference, place, is_unique=True)
    made = getattr(async_gopq, name)(hr._inner, reference._inner, place, is_unique=True)
    return SyncFacade(made, hr._loop, hr._context)


def _fetchq(hr: Any) -> Any:
    """A client of FetchQ on the client of the test."""
    if not isinstance(hr, SyncFacade):
        made = fetchq.FetchQ()
        made._client = hr
        return made
    asynchronous = async_fetchq.FetchQ()
    asynchronous._client = hr._inner
    return FetchQFacade(asynchronous, hr._loop, hr._context)


class FetchQFacade(SyncFacade):
    """Also for the references that it returns."""

    def _wrap(self, value: Any) -> Any:
        found = super()._wrap(value)
        is_reference = isinstance(found, async_fetchq.QueueRef)
        return SyncFacade(found, self._loop, self._context) if is_reference else found


def test_every_class_with_methods_can_be_made() -> None:
    assert set(CLASSES) == set(MAKERS)


@contextlib.contextmanager
def no_hang(call: str, given: object) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise AssertionError(f"{call} hangs with {given!r:.500}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def arguments(draw: Callable[[Any], Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Arguments that fit the signature: most are valid, some are anything at all."""
    found: dict[str, Any] = {}
    for name, parameter in _parameters(function):
        if name == "engine":
            found[name] = "inline"
            continue
        if name in values.WAITS:
            found[name] = draw(st.sampled_from(values.SHORT))
            continue
        is_needed = parameter is not None and parameter.default is inspect.Parameter.empty
        choice = draw(st.sampled_from(["right", "right", "wrong", "left"]))
        if choice == "left" and not is_needed:
            continue
        if choice == "wrong" and name not in ("master", "spark"):
            found[name] = values.wrong(draw)
        elif choice == "right" and (name in values.RIGHT or is_needed):
            found[name] = draw(st.sampled_from(values.RIGHT.get(name, [1, "x", {}, [1]])))
        elif is_needed:
            found[name] = draw(st.sampled_from(values.RIGHT.get(name, [1])))
    return found


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter | None]]:
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from ((option, None) for option in _options(function, name))
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            yield name, parameter


def _options(function: Callable[..., Any], name: str) -> list[str]:
    """What ``**options`` may be: the keys of a TypedDict."""
    try:
        hint = typing.get_type_hints(inspect.unwrap(function), include_extras=True).get(name)
    except NameError:
        return []
    known = typing.get_args(hint)
    return list(typing.get_type_hints(known[0])) if known else ["a", "b__gt", "c__in"]


def settle_down(result: Any) -> None:
    """Use the result, as far as it only acts when it is used."""
    if hasattr(result, "__next__"):
        list(itertools.islice(result, 3))
    elif type(result).__name__ in ("Worker", "AsyncWorker"):
        result.kill()


def call(hr: Any, method: str, given: dict[str, Any]) -> None:
    name, _, verb = method.partition(".")
    unexpected = None
    with contextlib.ExitStack() as stack:
        # An earlier call may have changed global settings.
        stack.enter_context(contextlib.suppress(HeadraceError))
        thing = MAKERS[name](hr, str(next(_numbers)))
        if name == "Transaction":
            thing = stack.enter_context(thing)
        elif name == "Live":
            stack.callback(thing.close)
        try:
            settle_down(getattr(thing, verb)(**given))
        except (HeadraceError, TypeError):
            return
        except Exception as error:
            unexpected = described(method, error)
    assert unexpected is None, unexpected


def described(name: str, error: BaseException) -> str:
    """The result, in a form that can be printed whatever was passed in."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    try:
        words = ascii(str(error))[:200]
    except Exception:
        words = "?"
    return f"{name}: {type(error).__name__} {words} at {place.filename}:{place.lineno}"


def fill(hr: Any) -> None:
    hr.commit_many("t", [{"n": n} for n in range(3)])
    hr.procs.create("p", "t")
    hr.push("q", {"n": 1}, subject="subject", channel={"a": 1})
    hr.push("q", 2)
    hr.limits.set({"a": headrace.ANY}, 5, name="rule")


def examples(few: int) -> settings:
    # The same each time unless many are wanted, so that unrelated changes cause no surprise.
    return settings(
        max_examples=max(few, EXAMPLES),
        derandomize=not EXAMPLES,
        database=None,
        # Shrinking an example takes far longer than finding it.
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )


@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("method", METHODS)
def test_methods(mode: ClientMode, method: str) -> None:
    """In memory, each on a store of its own."""
    name, _, verb = method.partition(".")
    function = getattr(CLASSES[name], verb)

    @examples(3)
    @given(st.data())
    def play(data: st.DataObject) -> None:
        calls = [arguments(data.draw, function) for _ in range(CALLS)]
        with no_hang(method, calls):
            hr = connect(mode, "memory://", patience=0.5)
            try:
                fill(hr)
                for given_ in calls:
                    call(hr, method, given_)
                hr.commit("still", {"works": True})
            finally:
                shut(hr)

    play()


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_methods_on_databases(mode: ClientMode, durable_url: str) -> None:
    """A share of them, all on one store."""

    hr = connect(mode, durable_url, patience=2)

    @examples(100)
    @given(st.data())
    def play(data: st.DataObject) -> None:
        method = data.draw(st.sampled_from(METHODS))
        name, _, verb = method.partition(".")
        given_ = arguments(data.draw, getattr(CLASSES[name], verb))
        with no_hang(method, given_):
            call(hr, method, given_)
            hr.commit("still", {"works": True})

    try:
        fill(hr)
        play()
    finally:
        shut(hr)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """Values are refused when they are made, or when they are used."""
    function = FUNCTIONS[name]

    @examples(20)
    @given(st.data())
    def play(data: st.DataObject) -> None:
        given_ = arguments(data.draw, function)
        unexpected = None
        with no_hang(name, given_):
            try:
                function(**given_)
            except (HeadraceError, TypeError):
                return
            except Exception as error:
                unexpected = described(name, error)
        assert unexpected is None, unexpected

    play()
