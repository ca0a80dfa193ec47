"""PipeProc's document from top to bottom: each of its code blocks has a test here."""

from __future__ import annotations

import asyncio
import pickle
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from async_facade import Blocking, LoopThread

import headrace
from headrace import errors
from headrace.compat import pipeproc
from headrace.compat.aio import pipeproc as async_pipeproc
from headrace.compat.pipeproc import PipeProcError
from headrace.compat.pipeproc_values import node_options, pipeproc_error, url_of

ID = re.compile(r"\d{13}-\d+")
NUMBERS = [{"topic": "numbers", "body": {"myNumber": n}} for n in (1, 2)]


@pytest.fixture
def new_client(mode: str, loop: LoopThread) -> Iterator[Callable[[], Any]]:
    """Makes clients of one colour, which are shut down after the test."""
    made: list[Any] = []

    def make() -> Any:
        if mode == "blocking":
            made.append(pipeproc.PipeProcClient())
        else:
            made.append(Blocking(async_pipeproc.PipeProcClient(), loop))
        return made[-1]

    yield make
    for client in made:
        with suppress(PipeProcError):  # it has no node, or no longer
            client.shutdown()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of ``spawn`` for each driver."""
    if request.param == "memory":
        return {"memory": True}
    if request.param == "sqlite":
        return {"location": str(request.getfixturevalue("quick_path") / "pipeproc data")}
    return {"location": request.getfixturevalue("postgres_url")}


@pytest.fixture
def client(new_client: Callable[[], Any], where: dict[str, Any]) -> Iterator[Any]:
    """A client of a store. A node would change nothing, and takes a second to start."""
    where.setdefault("location", f"memory://{uuid.uuid4()}")
    yield from connected(new_client(), where["location"])


@pytest.fixture
def memory_client(new_client: Callable[[], Any]) -> Iterator[Any]:
    """A client of a store in memory, for what does not depend on the driver."""
    yield from connected(new_client(), f"memory://{uuid.uuid4()}")


def connected(client: Any, location: str) -> Iterator[Any]:
    with headrace.connect(url_of(location)):
        assert client.connect(location=location) == "connected"
        yield client


def double(log: Any) -> Any:
    return {"doubled": 2 * log["body"]["myNumber"]}


def code_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The word of the error that a call raises, whose cause is Headrace's own error."""
    with pytest.raises(PipeProcError) as caught:
        function(*args, **kwargs)
    assert isinstance(caught.value.__cause__, errors.HeadraceError)
    assert str(caught.value).startswith(f"{caught.value.code}: ")
    return caught.value.code


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)
    return found


def bodies(client: Any, topic: str) -> list[Any]:
    try:
        return [log["body"] for log in client.range(topic)]
    except PipeProcError as error:
        if error.code != "invalid_topic":
            raise
        return []


class TestExample:
    def test_the_module_is_a_client(self) -> None:
        """``const {pipeProcClient} = require(…)``, spawn, and commit a log."""
        assert pipeproc.pipe_proc_client.spawn({"memory": True}) == "spawned_and_connected"
        try:
            assert pipeproc.commit({"topic": "my_topic", "body": {"greeting": "hello"}})
            assert pipeproc.length("my_topic") == 1
        finally:
            assert pipeproc.shutdown() == "closed"

    def test_the_async_module_is_a_client(self) -> None:
        async def example() -> str:
            await async_pipeproc.spawn({"memory": True})
            log = {"topic": "my_topic", "body": {"greeting": "hello"}}
            found = await async_pipeproc.pipe_proc_client.commit(log)
            await async_pipeproc.shutdown()
            return found

        assert ID.fullmatch(asyncio.run(example()))

    def test_both_modules_have_the_same_names(self) -> None:
        assert pipeproc.__all__ == async_pipeproc.__all__ == sorted(pipeproc.__all__)

    def test_an_id_is_the_time_and_a_number(self, client: Any) -> None:
        before = time.time() * 1000
        found = client.commit({"topic": "my_topic", "body": {"greeting": "hello"}})
        ms, _, seq = found.partition("-")
        assert ID.fullmatch(found)
        assert abs(int(ms) - before) < 60_000
        assert seq == "0"

    def test_every_call_accepts_a_callback_instead(self, memory_client: Any) -> None:
        """A callback gets ``(err, data)``, and the call returns nothing."""
        calls: list[tuple[Any, Any]] = []

        def callback(err: Any, data: Any) -> None:
            calls.append((err, data))

        log = {"topic": "numbers", "body": {"myNumber": 1}}
        assert memory_client.commit(log, callback) is None
        assert memory_client.range("numbers", None, callback) is None
        assert memory_client.length("numbers", callback=callback) is None
        assert memory_client.proc("numbers", {"name": "p", "offset": ">"}, callback) is None
        assert memory_client.ack("p", callback) is None
        assert memory_client.ack("unknown", callback) is None
        (_, found), (_, logs), (_, length), (_, claimed), (_, acked), (failed, nothing) = calls
        assert [{"id": found, "body": {"myNumber": 1}}] == logs == [claimed]
        assert (length, acked, nothing) == (1, found, None)
        assert failed.code == "invalid_proc"
        assert isinstance(failed.__cause__, errors.UnknownProc)

    def test_a_callback_gets_the_status(self, new_client: Callable[[], Any]) -> None:
        statuses: list[Any] = []
        client, other = new_client(), new_client()
        client.spawn({"memory": True}, lambda err, status: statuses.append((err, status)))
        other.connect(lambda err, status: statuses.append((err, status)))
        other.shutdown(lambda err, status: statuses.append((err, status)))
        client.shutdown(lambda err, status: statuses.append((err, status)))
        assert statuses == [
            (None, "spawned_and_connected"),
            (None, "connected"),
            (None, "disconnected"),
            (None, "closed"),
        ]


class TestProcessManagement:
    def test_spawn_connect_shutdown(self, new_client: Callable[[], Any], where: Any) -> None:
        client, other = new_client(), new_client()
        assert code_of(other.connect) == "no_active_node"
        assert client.spawn(where) == "spawned_and_connected"
        assert client.spawn(where) == "node_already_active"
        assert client.connect() == "already_connected"
        assert other.connect() == "connected"
        assert other.connect() == "already_connected"
        client.commit(NUMBERS)
        assert other.length("numbers") == 2
        assert other.shutdown() == "disconnected"
        assert client.length("numbers") == 2
        assert client.shutdown() == "closed"
        assert code_of(client.shutdown) == "no_active_node"

    def test_a_node_is_a_process_that_other_processes_find(
        self, new_client: Callable[[], Any], where: Any
    ) -> None:
        client = new_client()
        client.spawn({**where, "namespace": "shop"})
        ids = client.commit(NUMBERS)
        code = (
            "from headrace.compat import pipeproc\n"
            "print(pipeproc.connect({'namespace': 'shop'}))\n"
            "print(pipeproc.proc('numbers', name='p', offset='>')['id'])\n"
            "print(pipeproc.ack('p'))\n"
            "print(pipeproc.shutdown())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.split() == ["connected", ids[0], ids[0], "disconnected"]
        assert client.proc("numbers", {"name": "p", "offset": ">"})["id"] == ids[1]
        client.shutdown()

    def test_nodes_by_socket_and_tcp(self, new_client: Callable[[], Any], tmp_path: Path) -> None:
        client, other = new_client(), new_client()
        path = tmp_path / "sockets" / "node.sock"
        client.spawn({"memory": True, "socket": f"ipc://{path}"})
        assert other.connect({"socket": f"ipc://{path}"}) == "connected"
        other.shutdown()
        client.shutdown()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        client.spawn({"memory": True, "tcp": {"host": "127.0.0.1", "port": port}})
        assert other.connect(tcp={"host": "127.0.0.1", "port": port}) == "connected"
        client.commit(NUMBERS)
        assert other.length("numbers") == 2

    def test_a_second_node_in_a_namespace(self, new_client: Callable[[], Any]) -> None:
        """PipeProc's took the place of the first."""
        client, other = new_client(), new_client()
        client.spawn({"memory": True})
        assert code_of(other.spawn, {"memory": True}) == "system_already_active"
        client.commit(NUMBERS)
        assert client.length("numbers") == 2

    def test_a_system_proc_over_a_node(self, new_client: Callable[[], Any]) -> None:
        client = new_client()
        client.spawn({"memory": True})
        client.commit(NUMBERS)
        client.system_proc(
            {"name": "p", "offset": ">", "from": "numbers", "to": "out", "processor": double}
        )
        client.wait_for_procs("p")
        assert bodies(client, "out") == [{"doubled": 2}, {"doubled": 4}]

    def test_the_end_of_the_node_ends_its_clients(self, new_client: Callable[[], Any]) -> None:
        client, other = new_client(), new_client()
        client.spawn({"memory": True})
        other.connect()
        client.shutdown()
        assert code_of(other.commit, NUMBERS) == "no_active_node"
        assert code_of(other.connect) == "no_active_node"

    def test_without_a_node_every_call_is_refused(self, new_client: Callable[[], Any]) -> None:
        client = new_client()
        for call in (
            lambda: client.commit(NUMBERS),
            lambda: client.range("t"),
            lambda: client.revrange("t"),
            lambda: client.length("t"),
            lambda: client.proc("t", {"name": "p", "offset": ">"}),
            lambda: client.ack("p"),
            lambda: client.ack_commit("p", NUMBERS),
            lambda: client.reclaim("p"),
            lambda: client.inspect_proc("p"),
            lambda: client.destroy_proc("p"),
            lambda: client.disable_proc("p"),
            lambda: client.resume_proc("p"),
            lambda: client.system_proc({"name": "p", "from": "t", "processor": print}),
            lambda: client.live_proc({"topic": "t", "mode": "all"}),
            lambda: client.available_proc([]),
            client.wait_for_procs,
        ):
            assert code_of(call) == "no_active_node"

    def test_logs_and_procs_outlive_a_shutdown(
        self, new_client: Callable[[], Any], quick_path: Path
    ) -> None:
        options = {"location": str(quick_path / "data")}
        client = new_client()
        client.spawn(options)
        client.commit(NUMBERS)
        first = client.proc("numbers", {"name": "p", "offset": ">"})
        assert client.ack("p") == first["id"]
        client.shutdown()
        client.spawn(options)
        assert client.proc("numbers", {"name": "p", "offset": ">"})["body"] == {"myNumber": 2}

    def test_connect_opens_a_store_without_a_node(
        self, new_client: Callable[[], Any], quick_path: Path
    ) -> None:
        """With its location."""
        location = str(quick_path / "data")
        client, other = new_client(), new_client()
        assert code_of(other.connect, location=location) == "no_active_node"
        client.spawn({"location": location})
        client.commit(NUMBERS)
        assert other.connect(location=location) == "connected"
        assert other.length("numbers") == 2
        assert other.shutdown() == "disconnected"
        assert client.length("numbers") == 2

    def test_connect_in_another_process(self, durable_url: str) -> None:
        """The use case of the document: another process works with the same logs and procs."""
        client = pipeproc.PipeProcClient()
        client.spawn({"location": durable_url})
        ids = client.commit(NUMBERS)
        code = (
            "import sys; from headrace.compat import pipeproc\n"
            "print(pipeproc.connect(location=sys.argv[1]))\n"
            "print(pipeproc.proc('numbers', name='p', offset='>')['id'])\n"
            "print(pipeproc.ack('p'))\n"
            "print(pipeproc.shutdown())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, durable_url],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.split() == ["connected", ids[0], ids[0], "disconnected"]
        assert client.proc("numbers", {"name": "p", "offset": ">"})["id"] == ids[1]
        client.shutdown()

    def test_the_default_location(
        self,
        new_client: Callable[[], Any],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        client = new_client()
        client.spawn()
        client.shutdown()
        assert (tmp_path / "pipeproc_data").is_file()

    def test_options_may_be_keywords(self, new_client: Callable[[], Any]) -> None:
        client = new_client()
        client.spawn(memory=True, workers=0, gc=False)
        client.commit(NUMBERS)
        log = client.proc("numbers", name="p", offset=">", count=2, max_reclaims=3)
        assert len(log) == 2
        assert client.inspect_proc("p")["maxReclaims"] == 3
        assert len(client.range("numbers", limit=1)) == 1

    @pytest.mark.parametrize(
        "options",
        [
            {"memroy": True},
            {"workers": -1},
            {"workers": True},
            {"location": ""},
            {"tcp": {"host": "127.0.0.1"}},
            {"socket": "/run/node.sock"},
            {"socket": "ipc:///run/node.sock", "tls": {"server": {}}},
            {"workerConcurrency": 0},
            {"workerRestartAfter": -1},
            {"memory": True, "gc": {"minPruneTime": -1}},
            {"gc": {"pruneTime": 1}},
            "memory",
        ],
        ids=str,
    )
    def test_wrong_options_are_refused(self, options: Any) -> None:
        assert code_of(pipeproc.PipeProcClient().spawn, options) == "invalid_option"


class TestCommittingLogs:
    def test_a_single_log(self, client: Any) -> None:
        found = client.commit({"topic": "my_topic", "body": {"greeting": "hello"}})
        assert client.range("my_topic") == [{"id": found, "body": {"greeting": "hello"}}]

    def test_several_logs_of_one_topic(self, client: Any) -> None:
        """They have one timestamp, and numbers that increase."""
        ids = client.commit(
            [
                {"topic": "my_topic", "body": {"myData": "some data"}},
                {"topic": "my_topic", "body": {"myData": "more data"}},
            ]
        )
        ms = ids[0].partition("-")[0]
        assert ids == [f"{ms}-0", f"{ms}-1"]

    def test_logs_of_different_topics(self, client: Any) -> None:
        ids = client.commit(
            [
                {"topic": "my_topic", "body": {"myData": "some data"}},
                {"topic": "another_topic", "body": {"myData": "some data for another topic"}},
            ]
        )
        ms = ids[0].partition("-")[0]
        assert ids == [f"{ms}-0", f"{ms}-0"]

    def test_a_list_of_one_returns_a_list(self, client: Any) -> None:
        assert len(client.commit(NUMBERS[:1])) == 1

    @pytest.mark.parametrize(
        ("log", "code"),
        [
            ({"topic": "no spaces", "body": {}}, "invalid_topic_format"),
            ({"body": {}}, "invalid_topic_format"),
            ({"topic": "t", "body": 7}, "invalid_log_format"),
            ({"topic": "t"}, "invalid_log_format"),
            ({"topic": "t", "body": {}, "bdoy": {}}, "invalid_option"),
            ("t", "invalid_option"),
        ],
        ids=str,
    )
    def test_all_or_nothing(self, memory_client: Any, log: Any, code: str) -> None:
        assert code_of(memory_client.commit, log) == code
        assert code_of(memory_client.commit, [*NUMBERS, log]) == code
        assert code_of(memory_client.length, "numbers") == "invalid_topic"


class TestReadApi:
    @pytest.fixture
    def ids(self, client: Any) -> list[str]:
        return client.commit([{"topic": "my_topic", "body": {"n": n}} for n in range(20)])

    @staticmethod
    def numbers(logs: list[Any]) -> list[int]:
        return [log["body"]["n"] for log in logs]

    def test_range(self, client: Any, ids: list[str]) -> None:
        """The examples in the order of the document."""
        ms = ids[0].partition("-")[0]
        later = str(int(ms) + 1)
        everything = list(range(20))
        found = client.range("my_topic", {"start": f"{ms}-0", "end": f"{later}-10"})
        assert self.numbers(found) == everything
        assert self.numbers(client.range("my_topic", {"start": ms, "end": later})) == everything
        assert self.numbers(client.range("my_topic")) == everything
        assert self.numbers(client.range("my_topic", {"start": ms})) == everything
        assert client.range("my_topic", {"start": later}) == []
        found = client.range("my_topic", {"start": ms, "limit": 5})
        assert self.numbers(found) == [0, 1, 2, 3, 4]
        found = client.range("my_topic", {"start": ":5", "end": ":15"})
        assert self.numbers(found) == list(range(5, 16))
        found = client.range("my_topic", {"start": ":5", "end": ":15", "exclusive": True})
        assert self.numbers(found) == list(range(6, 15))
        assert client.range("my_topic", {"limit": 1}) == [{"id": ids[0], "body": {"n": 0}}]

    def test_revrange(self, client: Any, ids: list[str]) -> None:
        assert client.revrange("my_topic", {"limit": 1}) == [{"id": ids[-1], "body": {"n": 19}}]
        found = client.revrange("my_topic", {"start": ":3", "end": ":1"})
        assert self.numbers(found) == [3, 2, 1]
        assert client.revrange("my_topic", {"start": ":1", "end": ":3"}) == []

    def test_a_topic_with_a_hyphen(self, client: Any) -> None:
        """In PipeProc a timestamp was no whole millisecond there."""
        found = client.commit([{"topic": "my-topic", "body": {"n": n}} for n in range(3)])
        ms = found[0].partition("-")[0]
        assert self.numbers(client.range("my-topic", {"end": ms})) == [0, 1, 2]
        assert self.numbers(client.revrange("my-topic", {"start": ms})) == [2, 1, 0]

    def test_length(self, client: Any, ids: list[str]) -> None:
        assert client.length("my_topic") == len(ids)

    def test_errors(self, client: Any, ids: list[str]) -> None:
        assert ids
        for read in (client.range, client.revrange, client.length):
            assert code_of(read, "never") == "invalid_topic"
            assert code_of(read, "no spaces") == "invalid_topic_format"
        assert code_of(client.range, "my_topic", {"start": "abc"}) == "invalid_range_offset"
        assert code_of(client.range, "my_topic", {"end": ":99"}) == "invalid_tone_id_search"
        assert code_of(client.range, "my_topic", {"begin": ":1"}) == "invalid_option"


class TestProcs:
    @pytest.fixture
    def ids(self, client: Any) -> list[str]:
        return client.commit(NUMBERS)

    def test_the_example(self, client: Any, ids: list[str]) -> None:
        """Fetch, process, ack and commit the result; then the second log comes."""
        log = client.proc("numbers", {"name": "my_proc", "offset": ">"})
        assert log == {"id": ids[0], "body": {"myNumber": 1}}
        incremented = log["body"]["myNumber"] + 1
        done = client.ack_commit(
            "my_proc",
            {"topic": "incremented_numbers", "body": {"myIncrementedNumber": incremented}},
        )
        assert done["ackedLogId"] == ids[0]
        assert client.range("incremented_numbers") == [
            {"id": done["id"], "body": {"myIncrementedNumber": 2}}
        ]
        assert client.proc("numbers", {"name": "my_proc", "offset": ">"})["id"] == ids[1]

    def test_after_a_reclaim_the_first_log_comes_again(self, client: Any, ids: list[str]) -> None:
        fetch = {"name": "my_proc", "offset": ">"}
        assert client.proc("numbers", fetch)["id"] == ids[0]
        assert client.proc("numbers", fetch) is None
        assert client.reclaim("my_proc") == ""
        assert client.proc("numbers", fetch)["id"] == ids[0]
        client.ack("my_proc")
        assert client.proc("numbers", fetch)["id"] == ids[1]
        assert client.reclaim("my_proc") == f"{ids[0]}..{ids[0]}"

    def test_the_whole_signature(self, client: Any, ids: list[str]) -> None:
        logs = client.proc(
            "numbers",
            {
                "name": "my_proc",
                "offset": ">",
                "count": 2,
                "maxReclaims": 3,
                "reclaimTimeout": 5000,
                "onMaxReclaimsReached": "continue",
            },
        )
        assert [log["id"] for log in logs] == ids
        record = client.inspect_proc("my_proc")
        assert record["maxReclaims"] == 3
        assert record["reclaimTimeout"] == 5000
        assert record["onMaxReclaimsReached"] == "continue"

    def test_one_log_of_several_is_a_list_too(self, client: Any, ids: list[str]) -> None:
        logs = client.proc("numbers", {"name": "p", "offset": ":0", "count": 5})
        assert [log["id"] for log in logs] == ids[1:]

    def test_zero_means_the_default(self, client: Any, ids: list[str]) -> None:
        zeros = {"count": 0, "maxReclaims": 0, "reclaimTimeout": 0}
        assert client.proc("numbers", {"name": "p", "offset": ">", **zeros})["id"] == ids[0]
        record = client.inspect_proc("p")
        assert (record["maxReclaims"], record["reclaimTimeout"]) == (10, 10_000)

    def test_minus_one_means_no_limit(self, client: Any, ids: list[str]) -> None:
        assert ids
        never = {"maxReclaims": -1, "reclaimTimeout": -1}
        client.proc("numbers", {"name": "p", "offset": ">", **never})
        record = client.inspect_proc("p")
        assert (record["maxReclaims"], record["reclaimTimeout"]) == (-1, -1)

    def test_offsets(self, client: Any, ids: list[str]) -> None:
        ms = ids[0].partition("-")[0]
        offsets = {">": ids[0], ids[0]: ids[1], ":0": ids[1], ms: ids[0], "$>": None}
        for number, (offset, expected) in enumerate(offsets.items()):
            log = client.proc("numbers", {"name": f"p{number}", "offset": offset})
            assert (log and log["id"]) == expected, offset
        new = client.commit({"topic": "numbers", "body": {"myNumber": 3}})
        assert client.proc("numbers", {"name": "p4", "offset": "$>"})["id"] == new

    def test_a_proc_of_a_topic_without_logs(self, client: Any) -> None:
        assert client.proc("later", {"name": "p", "offset": "$>"}) is None
        found = client.commit({"topic": "later", "body": {}})
        assert client.proc("later", {"name": "p", "offset": "$>"})["id"] == found

    def test_ack_answers_one_id_or_a_range(self, client: Any, ids: list[str]) -> None:
        client.proc("numbers", {"name": "one", "offset": ">"})
        assert client.ack("one") == ids[0]
        client.proc("numbers", {"name": "two", "offset": ">", "count": 2})
        assert client.ack("two") == f"{ids[0]}..{ids[1]}"
        assert client.proc("numbers", {"name": "two", "offset": ">", "count": 2}) is None

    def test_the_same_ack_again_has_the_same_answer(self, client: Any, ids: list[str]) -> None:
        client.proc("numbers", {"name": "p", "offset": ">"})
        assert client.ack("p") == client.ack("p") == ids[0]
        assert client.proc("numbers", {"name": "p", "offset": ">"})["id"] == ids[1]

    def test_the_same_ack_commit_again_commits_nothing(self, client: Any, ids: list[str]) -> None:
        """PipeProc committed the logs a second time."""
        client.proc("numbers", {"name": "p", "offset": ">"})
        out = {"topic": "out", "body": {"n": 1}}
        assert client.ack_commit("p", out) == client.ack_commit("p", out)
        assert client.length("out") == 1
        assert code_of(client.ack_commit, "p", {"topic": "out", "body": {}}) == "claim_lost"
        assert client.proc("numbers", {"name": "p", "offset": ">"})["id"] == ids[1]

    def test_ack_commit_is_atomic(self, client: Any, ids: list[str]) -> None:
        """If the commit fails, the ack fails: the log is still claimed."""
        client.proc("numbers", {"name": "p", "offset": ">"})
        broken = [{"topic": "out", "body": {}}, {"topic": "out", "body": 7}]
        assert code_of(client.ack_commit, "p", broken) == "invalid_log_format"
        assert code_of(client.length, "out") == "invalid_topic"
        assert client.inspect_proc("p")["lastAckedRange"] == ""
        good = [{"topic": "out", "body": {"n": n}} for n in range(2)]
        done = client.ack_commit("p", good)
        assert done == {
            "ackedLogId": ids[0],
            "id": [log["id"] for log in client.range("out")],
        }

    def test_only_the_client_that_fetched_may_ack(
        self, client: Any, where: Any, new_client: Callable[[], Any], ids: list[str]
    ) -> None:
        """PipeProc acked whatever was claimed, also what another client had fetched."""
        other = new_client()
        other.connect(location=where["location"])
        fetch = {"name": "p", "offset": ">", "reclaimTimeout": 1}
        client.proc("numbers", fetch)
        assert code_of(other.ack, "p") == "claim_lost"
        assert code_of(other.reclaim, "p") == "claim_lost"
        assert code_of(other.ack_commit, "p", NUMBERS) == "claim_lost"
        time.sleep(0.01)
        assert other.proc("numbers", fetch)["id"] == ids[0]
        assert code_of(client.ack, "p") == "claim_lost"
        assert code_of(client.reclaim, "p") == "claim_lost"
        assert other.ack("p") == ids[0]

    def test_nothing_to_ack_or_reclaim(self, client: Any, ids: list[str]) -> None:
        assert ids
        for use in (client.ack, client.reclaim, client.inspect_proc):
            assert code_of(use, "unknown") == "invalid_proc"
        assert client.proc("numbers", {"name": "p", "offset": "$>"}) is None
        assert code_of(client.ack, "p") == code_of(client.reclaim, "p") == "claim_lost"
        client.proc("numbers", {"name": "q", "offset": ">"})
        client.ack("q")
        assert code_of(client.reclaim, "q") == "nothing_to_reclaim"

    def test_a_proc_belongs_to_one_topic(self, client: Any, ids: list[str]) -> None:
        assert ids
        client.proc("numbers", {"name": "p", "offset": ">"})
        wrong = code_of(client.proc, "other", {"name": "p", "offset": ">"})
        assert wrong == "proc_name_not_unique"

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"offset": ">"}, "invalid_option"),
            ({"name": "p", "offset": "<"}, "invalid_range_offset"),
            ({"name": "p", "offset": ":7"}, "invalid_tone_id_search"),
            ({"name": "p", "onMaxReclaimsReached": "explode"}, "invalid_option"),
            ({"name": "p", "reclaimTimeout": -5}, "invalid_option"),
            ({"name": "p", "timeout": 5}, "invalid_option"),
        ],
        ids=str,
    )
    def test_wrong_options_make_no_proc(self, memory_client: Any, options: Any, code: str) -> None:
        memory_client.commit(NUMBERS)
        assert code_of(memory_client.proc, "numbers", options) == code
        assert code_of(memory_client.inspect_proc, "p") == "invalid_proc"


class TestReclaimSettings:
    def fail(self, client: Any, times: int, **options: Any) -> None:
        client.commit(NUMBERS)
        for _ in range(times):
            assert client.proc("numbers", {"name": "p", "offset": ">", **options})
            client.reclaim("p")

    def test_at_max_reclaims_the_proc_is_disabled(self, client: Any) -> None:
        self.fail(client, 3, maxReclaims=3)
        fetch = {"name": "p", "offset": ">"}
        assert code_of(client.proc, "numbers", fetch) == "proc_is_disabled"
        assert client.inspect_proc("p")["status"] == "disabled"
        resumed = client.resume_proc("p")
        assert (resumed["status"], resumed["reclaims"]) == ("active", 0)
        assert client.proc("numbers", fetch)["body"] == {"myNumber": 1}

    def test_the_default_is_ten(self, client: Any) -> None:
        self.fail(client, 9)
        assert client.inspect_proc("p")["status"] == "active"
        self.fail(client, 1)
        assert client.inspect_proc("p")["status"] == "disabled"

    @pytest.mark.parametrize("options", [{"onMaxReclaimsReached": "continue"}, {"maxReclaims": -1}])
    def test_without_a_limit_it_goes_on(self, client: Any, options: Any) -> None:
        self.fail(client, 12, **options)
        record = client.inspect_proc("p")
        assert (record["status"], record["reclaims"]) == ("active", 12)

    def test_the_reclaim_timeout_counts_as_a_reclaim(self, client: Any) -> None:
        client.commit(NUMBERS)
        fetch = {"name": "p", "offset": ">", "reclaimTimeout": 50}
        first = client.proc("numbers", fetch)
        assert eventually(lambda: client.proc("numbers", fetch)) == first
        assert client.inspect_proc("p")["reclaims"] >= 1


class TestProcRecords:
    def test_destroy(self, client: Any) -> None:
        """It throws if there is none; the proc that is run again begins anew."""
        assert code_of(client.destroy_proc, "my_proc") == "invalid_proc"
        client.commit(NUMBERS)
        first = client.proc("numbers", {"name": "my_proc", "offset": ">"})
        client.ack("my_proc")
        record = client.inspect_proc("my_proc")
        assert client.destroy_proc("my_proc") == record
        assert code_of(client.inspect_proc, "my_proc") == "invalid_proc"
        assert client.proc("numbers", {"name": "my_proc", "offset": ">"}) == first

    def test_destroy_removes_no_other_proc(self, client: Any) -> None:
        """PipeProc removed all procs whose names sort after it, and all system procs."""
        client.commit(NUMBERS)
        for name in ("a", "b", "c"):
            client.proc("numbers", {"name": name, "offset": ">"})
        before = [client.inspect_proc(name) for name in ("b", "c")]
        client.destroy_proc("a")
        assert [client.inspect_proc(name) for name in ("b", "c")] == before

    def test_inspect(self, client: Any) -> None:
        ids = client.commit(NUMBERS)
        before = time.time() * 1000
        client.proc("numbers", {"name": "my_proc", "offset": ">"})
        record = client.inspect_proc("my_proc")
        for moment in ("createdAt", "lastClaimedAt"):
            assert abs(record.pop(moment) - before) < 60_000
        assert record == {
            "name": "my_proc",
            "topic": "numbers",
            "offset": ">",
            "status": "active",
            "lastAckedAt": 0,
            "lastClaimedRange": f"{ids[0]}..{ids[0]}",
            "lastAckedRange": "",
            "previousClaimedRange": "",
            "reclaims": 0,
            "maxReclaims": 10,
            "reclaimTimeout": 10_000,
            "onMaxReclaimsReached": "disable",
        }

    def test_disable_and_resume(self, client: Any) -> None:
        assert code_of(client.disable_proc, "my_proc") == "invalid_proc"
        assert code_of(client.resume_proc, "my_proc") == "invalid_proc"
        client.commit(NUMBERS)
        fetch = {"name": "my_proc", "offset": ">"}
        client.proc("numbers", fetch)
        assert code_of(client.resume_proc, "my_proc") == "proc_already_active"
        disabled = client.disable_proc("my_proc")
        assert disabled == client.inspect_proc("my_proc")
        assert disabled["status"] == "disabled"
        assert code_of(client.disable_proc, "my_proc") == "proc_already_disabled"
        assert code_of(client.proc, "numbers", fetch) == "proc_is_disabled"
        assert code_of(client.reclaim, "my_proc") == "proc_is_disabled"
        assert client.ack("my_proc")
        assert client.resume_proc("my_proc")["status"] == "active"
        assert client.proc("numbers", fetch)["body"] == {"myNumber": 2}


PROCESSOR = """
def my_processor(log, done):
    done(None, {"myIncrementedNumber": log["body"]["myNumber"] + 1})


def other(log):
    return {"other": log["body"]["myNumber"]}
"""


class TestSystemProcs:
    @pytest.fixture(autouse=True)
    def numbers(self, request: pytest.FixtureRequest) -> None:
        name = "client" if "client" in request.fixturenames else "memory_client"
        request.getfixturevalue(name).commit(NUMBERS)

    @staticmethod
    def run(client: Any, processor: Any, **options: Any) -> Any:
        wanted = {
            "name": "p",
            "offset": ">",
            "from": "numbers",
            "to": "out",
            "processor": processor,
            **options,
        }
        return client.system_proc({k: v for k, v in wanted.items() if v is not None})

    def test_a_processor_in_a_file(self, client: Any, tmp_path: Path) -> None:
        path = tmp_path / "my_processor.py"
        path.write_text(PROCESSOR)
        record = client.system_proc(
            {
                "name": "my_system_proc",
                "offset": ">",
                "from": "numbers",
                "processor": str(path),
                "to": "incremented_numbers",
            }
        )
        assert record["name"] == "my_system_proc"
        client.wait_for_procs("my_system_proc")
        assert bodies(client, "incremented_numbers") == [
            {"myIncrementedNumber": 2},
            {"myIncrementedNumber": 3},
        ]

    def test_an_inlined_processor(self, client: Any) -> None:
        client.system_proc(
            {
                "name": "number_writer",
                "offset": ">",
                "count": 1,
                "maxReclaims": -1,
                "reclaimTimeout": 5000,
                "from": "numbers",
                "to": "incremented_numbers",
                "processor": lambda log, done: done(None, {"n": log["body"]["myNumber"] + 1}),
            }
        )
        client.wait_for_procs()
        assert bodies(client, "incremented_numbers") == [{"n": 2}, {"n": 3}]
        client.commit({"topic": "numbers", "body": {"myNumber": 10}})
        eventually(lambda: {"n": 11} in bodies(client, "incremented_numbers"))

    @pytest.mark.parametrize("reference", ["{path}:other", "some_processors:other"])
    def test_other_functions(
        self,
        memory_client: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        reference: str,
    ) -> None:
        path = tmp_path / "some_processors.py"
        path.write_text(PROCESSOR)
        monkeypatch.syspath_prepend(tmp_path)
        self.run(memory_client, reference.format(path=path))
        memory_client.wait_for_procs()
        assert bodies(memory_client, "out") == [{"other": 1}, {"other": 2}]
        sys.modules.pop("some_processors", None)

    def test_several_targets(self, client: Any) -> None:
        """Every result goes to every topic."""
        self.run(client, lambda log: log["body"], to=["a", "b"])
        client.wait_for_procs("p")
        assert bodies(client, "a") == bodies(client, "b") == [log["body"] for log in NUMBERS]

    def test_several_sources(self, client: Any) -> None:
        client.commit({"topic": "more", "body": {"myNumber": 3}})
        records = self.run(client, lambda log: log["body"], **{"from": ["numbers", "more"]})
        assert [record["name"] for record in records] == ["p__numbers", "p__more"]
        client.wait_for_procs(["p__numbers", "p__more"])
        assert sorted(body["myNumber"] for body in bodies(client, "out")) == [1, 2, 3]

    def test_without_a_target_nothing_is_published(self, memory_client: Any) -> None:
        """Whatever the processor returns, also what no log could contain."""
        seen: list[Any] = []

        def write(log: Any, done: Any) -> None:
            seen.append(log["body"]["myNumber"])
            done(None, "written")

        self.run(memory_client, write, to=None)
        memory_client.wait_for_procs("p")
        assert seen == [1, 2]

    def test_a_promise(self, memory_client: Any) -> None:
        """A coroutine function, a function that returns an awaitable, or ``done`` called later."""

        async def promised(log: Any) -> Any:
            await asyncio.sleep(0)
            return {"n": log["body"]["myNumber"]}

        async def with_done(log: Any, done: Any) -> None:
            await asyncio.sleep(0)
            done(None, {"n": log["body"]["myNumber"]})

        def later(log: Any, done: Any) -> None:
            timer = threading.Timer(0.02, done, [None, {"n": log["body"]["myNumber"]}])
            timer.start()

        processors = [promised, with_done, later, lambda log, done: promised(log)]
        for number, processor in enumerate(processors):
            self.run(memory_client, processor, name=f"p{number}", to=f"out{number}")
        memory_client.wait_for_procs()
        for number in range(len(processors)):
            assert bodies(memory_client, f"out{number}") == [{"n": 1}, {"n": 2}]

    @pytest.mark.parametrize("way", ["done", "text", "promise", "raise"])
    def test_an_error_reclaims(self, client: Any, way: str) -> None:
        """And the log comes again, until ``maxReclaims``."""
        tries: list[int] = []

        async def promise() -> None:
            raise ValueError("not this time")

        def processor(log: Any, done: Any) -> Any:
            tries.append(log["body"]["myNumber"])
            if len(tries) > 2:
                done(None, log["body"])
            elif way == "done":
                done(ValueError("not this time"))
            elif way == "text":
                done("not this time")
            elif way == "promise":
                return promise()
            else:
                raise ValueError("not this time")
            return None

        self.run(client, processor)
        client.wait_for_procs()
        assert tries == [1, 1, 1, 2]
        assert bodies(client, "out") == [log["body"] for log in NUMBERS]

    def test_a_processor_that_always_fails_disables_the_proc(self, client: Any) -> None:
        self.run(client, lambda log, done: done("never"), maxReclaims=2)
        eventually(lambda: client.inspect_proc("p")["status"] == "disabled")
        assert client.inspect_proc("p")["reclaims"] == 2
        assert bodies(client, "out") == []

    def test_a_processor_that_never_calls_done_is_reclaimed(self, memory_client: Any) -> None:
        tries: list[Any] = []

        def processor(log: Any, done: Any) -> None:
            tries.append(log)
            if len(tries) > 1:
                done(None, log["body"])

        self.run(memory_client, processor, reclaimTimeout=200)
        eventually(lambda: len(bodies(memory_client, "out")) == 2)
        assert len(tries) == 3

    def test_only_the_first_done_counts(self, memory_client: Any) -> None:
        def processor(log: Any, done: Any) -> None:
            done(None, log["body"])
            done("too late")
            done(None, {"also": "too late"})

        self.run(memory_client, processor)
        eventually(lambda: len(bodies(memory_client, "out")) == 2)
        assert bodies(memory_client, "out") == [log["body"] for log in NUMBERS]

    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            (None, []),
            ({}, [{}, {}]),
            ([{"a": 1}, {"b": 2}], [{"a": 1}, {"b": 2}] * 2),
            (0, []),
        ],
    )
    def test_results(self, memory_client: Any, result: Any, expected: Any) -> None:
        self.run(memory_client, lambda log, done: done(None, result))
        memory_client.wait_for_procs()
        assert bodies(memory_client, "out") == expected

    def test_again_with_another_processor(self, memory_client: Any) -> None:
        """It goes on where it was, with the new processor."""
        self.run(memory_client, lambda log: {"by": "first"})
        memory_client.wait_for_procs()
        self.run(memory_client, lambda log: {"by": "second"})
        for _ in range(10):
            memory_client.commit(NUMBERS[:1])
        memory_client.wait_for_procs()
        assert bodies(memory_client, "out") == [{"by": "first"}] * 2 + [{"by": "second"}] * 10

    def test_destroyed_it_ends(self, memory_client: Any) -> None:
        self.run(memory_client, lambda log: log["body"])
        memory_client.wait_for_procs()
        memory_client.destroy_proc("p")
        memory_client.commit(NUMBERS)
        time.sleep(0.1)
        assert len(bodies(memory_client, "out")) == 2
        assert code_of(memory_client.inspect_proc, "p") == "invalid_proc"

    def test_without_workers_it_is_only_stored(self, new_client: Callable[[], Any]) -> None:
        client = new_client()
        client.spawn({"memory": True, "workers": 0})
        client.commit(NUMBERS)
        assert self.run(client, lambda log: log["body"])["status"] == "active"
        time.sleep(0.1)
        assert client.inspect_proc("p")["lastClaimedRange"] == ""

    @pytest.mark.parametrize(
        "processor", [None, 7, lambda: None, "/no/such/file.py", "no_such_module:function", "text"]
    )
    def test_no_valid_processor(self, memory_client: Any, processor: Any) -> None:
        assert code_of(self.run, memory_client, processor) == "no_valid_processor_provided"
        assert code_of(memory_client.inspect_proc, "p") == "invalid_proc"

    def test_the_name_of_a_proc_of_another_topic(self, memory_client: Any) -> None:
        memory_client.proc("other", {"name": "p", "offset": ">"})
        assert code_of(self.run, memory_client, print) == "proc_name_not_unique"


class TestLiveProcs:
    @staticmethod
    def follow(client: Any, **options: Any) -> tuple[Any, queue.Queue[tuple[Any, Any]]]:
        calls: queue.Queue[tuple[Any, Any]] = queue.Queue()
        live = client.live_proc({"topic": "my_topic", "mode": "all", **options})
        changed = live.changes(lambda err, logs: calls.put((err, logs)))
        assert changed.name == live.name
        return live, calls

    @staticmethod
    def commit(client: Any, *numbers: int) -> list[str]:
        return client.commit([{"topic": "my_topic", "body": {"n": n}} for n in numbers])

    def test_the_example(self, client: Any) -> None:
        """``this`` is the third argument; ack and reclaim are manual."""
        seen: list[int] = []

        def changes(err: Any, logs: Any, live: Any) -> None:
            if err:
                live.reclaim()
            elif logs:
                seen.append(logs[0]["body"]["n"])
                if seen == [0]:
                    raise ValueError("not this time")
                live.ack()

        async def async_changes(err: Any, logs: Any, live: Any) -> None:
            if err:
                await live.reclaim()
            elif logs:
                seen.append(logs[0]["body"]["n"])
                if seen == [0]:
                    raise ValueError("not this time")
                await live.ack()

        self.commit(client, 0, 1)
        is_async = isinstance(client, Blocking)
        live = client.live_proc({"topic": "my_topic", "mode": "all"})
        live.changes(async_changes if is_async else changes)
        self.commit(client, 2)
        eventually(lambda: seen == [0, 0, 1, 2])
        eventually(lambda: live.inspect()["lastAckedRange"].endswith("-2"))

    def test_an_exception_of_the_callback_is_its_error(self, memory_client: Any) -> None:
        """The logs are still claimed then, so that they can be reclaimed."""
        calls: queue.Queue[tuple[Any, Any]] = queue.Queue()
        mistake = ValueError("not this time")

        def changes(err: Any, logs: Any) -> None:
            calls.put((err, logs))
            if logs:
                raise mistake

        self.commit(memory_client, 1)
        live = memory_client.live_proc({"topic": "my_topic", "mode": "all"})
        live.changes(changes)
        first = calls.get(timeout=20)
        assert calls.get(timeout=20) == (mistake, None)
        assert live.reclaim() == ""
        assert live.inspect()["reclaims"] == 1
        assert calls.get(timeout=20) == first

    def test_mode_all_and_live(self, client: Any) -> None:
        old = self.commit(client, 1)
        _, everything = self.follow(client, mode="all")
        live, news = self.follow(client, mode="live")
        assert everything.get(timeout=20) == (None, [{"id": old[0], "body": {"n": 1}}])
        eventually(lambda: client.inspect_proc(live.name))
        new = self.commit(client, 2)
        assert news.get(timeout=20) == (None, [{"id": new[0], "body": {"n": 2}}])

    def test_count(self, client: Any) -> None:
        ids = self.commit(client, 1, 2, 3)
        live, calls = self.follow(client, count=2)
        assert len(calls.get(timeout=20)[1]) == 2
        assert live.ack() == f"{ids[0]}..{ids[1]}"
        assert len(calls.get(timeout=20)[1]) == 1
        assert live.ack() == ids[2]

    def test_the_next_logs_wait_for_the_ack(self, client: Any) -> None:
        self.commit(client, 1, 2)
        live, calls = self.follow(client)
        first = calls.get(timeout=20)[1]
        with pytest.raises(queue.Empty):
            calls.get(timeout=0.2)
        live.reclaim()
        assert calls.get(timeout=20)[1] == first
        live.ack_commit({"topic": "out", "body": first[0]["body"]})
        assert bodies(client, "out") == [{"n": 1}]
        assert calls.get(timeout=20)[1][0]["body"] == {"n": 2}

    def test_forgotten_logs_come_again(
        self, memory_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for colour in ("_sync", "_async"):
            module = f"headrace.compat.{colour}.pipeproc_live"
            monkeypatch.setattr(f"{module}.LIVE_RECLAIM_SECONDS", 0.05)
        self.commit(memory_client, 1)
        live, calls = self.follow(memory_client)
        assert calls.get(timeout=20) == calls.get(timeout=20)
        assert live.inspect()["reclaims"] >= 1

    def test_its_methods_are_those_of_its_proc(self, client: Any) -> None:
        self.commit(client, 1)
        live, calls = self.follow(client)
        calls.get(timeout=20)
        assert live.inspect() == client.inspect_proc(live.name)
        assert live.disable()["status"] == "disabled"
        assert live.ack()
        self.commit(client, 2)
        assert calls.get(timeout=20)[0].code == "proc_is_disabled"
        assert live.resume()["status"] == "active"
        assert calls.get(timeout=20)[1][0]["body"] == {"n": 2}
        assert live.destroy()["name"] == live.name
        assert code_of(client.inspect_proc, live.name) == "invalid_proc"
        self.commit(client, 3)
        with pytest.raises(queue.Empty):
            calls.get(timeout=0.2)

    def test_without_a_claim(self, memory_client: Any) -> None:
        live = memory_client.live_proc(topic="my_topic", mode="live")
        assert code_of(live.inspect) == code_of(live.ack) == "invalid_proc"
        live.changes(print)
        assert code_of(live.ack) == code_of(live.reclaim) == "claim_lost"

    def test_a_shutdown_ends_it(self, memory_client: Any) -> None:
        """Promptly, also while its logs are not acked."""
        self.commit(memory_client, 1)
        _, calls = self.follow(memory_client)
        calls.get(timeout=20)
        begun = time.monotonic()
        assert memory_client.shutdown() == "disconnected"
        assert time.monotonic() - begun < 5

    def test_wrong_options(self, memory_client: Any) -> None:
        assert code_of(memory_client.live_proc, {"mode": "all"}) == "invalid_option"
        assert code_of(memory_client.live_proc, {"topic": "a b"}) == "invalid_topic_format"


class TestGc:
    def test_old_logs_are_collected(self, new_client: Callable[[], Any], where: Any) -> None:
        """Without procs all that are old enough, with procs all but their last two claims."""
        client = new_client()
        client.spawn({**where, "gc": {"minPruneTime": 1, "interval": 50}})
        assert client.proc("read", {"name": "p", "offset": ">"}) is None
        client.commit([{"topic": topic, "body": {}} for topic in ("free", "read") * 4])
        for _ in range(3):
            client.proc("read", {"name": "p", "offset": ">"})
            client.ack("p")
        eventually(lambda: client.range("free") == [])
        eventually(lambda: len(client.range("read")) == 3)
        # While the store is still there: another test may get its tables.
        client.shutdown()

    def test_unread_logs_are_kept(self, new_client: Callable[[], Any]) -> None:
        """PipeProc collected what a slow or disabled proc had not read."""
        client = new_client()
        client.spawn({"memory": True, "gc": {"minPruneTime": 1, "interval": 20}})
        for name in ("slow", "fast"):
            assert client.proc("numbers", {"name": name, "offset": ">"}) is None
        client.disable_proc("slow")
        client.commit([{"topic": "free", "body": {}}, *NUMBERS])
        for _ in range(2):
            client.proc("numbers", {"name": "fast", "offset": ">"})
            client.ack("fast")
        eventually(lambda: client.range("free") == [])
        assert client.length("numbers") == 2

    def test_false_collects_nothing(self, new_client: Callable[[], Any]) -> None:
        client = new_client()
        client.spawn({"memory": True, "gc": False})
        client.commit(NUMBERS)
        time.sleep(0.1)
        assert client.length("numbers") == 2

    @pytest.mark.parametrize(
        ("options", "ages"),
        [
            ({"location": "data"}, (30.0, 30.0)),
            ({"memory": True}, (30.0, 30.0)),
            ({"memory": True, "gc": {"minPruneTime": 5000}}, (5.0, 30.0)),
            ({"memory": True, "gc": False}, (None, 30.0)),
            ({"location": "memory://shared"}, None),
            ({"location": "memory://shared", "gc": {}}, (30.0, 30.0)),
        ],
        ids=str,
    )
    def test_the_default_is_30_seconds(self, options: Any, ages: Any) -> None:
        """But the store of a URL, which others may use, stays as it is."""
        found = node_options(options).arguments.get("gc")
        assert found == (None if ages is None else {"min_age": ages[0], "interval": ages[1]})


class TestBeyondTheDocument:
    def test_available_proc(self, client: Any) -> None:
        """Procs that have work take turns; those that are missing are made."""
        client.commit([{"topic": t, "body": {"n": n}} for n in range(2) for t in ("a", "b")])
        wanted = [
            {"name": "pa", "topic": "a", "offset": ">"},
            {"name": "pb", "topic": "b", "offset": ">"},
            {"name": "dropped", "topic": "b"},
        ]
        found = [client.available_proc(wanted) for _ in range(3)]
        assert found[2] is None
        assert {one["procName"]: one["log"]["body"] for one in found[:2]} == {
            "pa": {"n": 0},
            "pb": {"n": 0},
        }
        client.ack("pa")
        client.reclaim("pb")
        turns = [client.available_proc(wanted) for _ in range(2)]
        assert {one["procName"]: one["log"]["body"]["n"] for one in turns} == {"pa": 1, "pb": 0}
        assert client.available_proc([]) is None
        assert client.available_proc([{"name": "p"}]) is None

    def test_available_proc_with_a_count(self, client: Any) -> None:
        client.commit(NUMBERS)
        wanted = [{"name": "p", "topic": "numbers", "offset": ">", "count": 5}]
        assert len(client.available_proc(wanted)["log"]) == 2
        client.ack("p")
        client.commit(NUMBERS)
        wanted.append({"name": "q", "topic": "numbers", "offset": ">", "count": 1})
        found = [client.available_proc(wanted) for _ in range(2)]
        assert {one["procName"]: type(one["log"]) for one in found} == {"p": list, "q": dict}
        assert client.ack("q") == found[[one["procName"] for one in found].index("q")]["log"]["id"]

    def test_wait_for_procs(self, client: Any) -> None:
        client.wait_for_procs()
        client.commit(NUMBERS)
        client.proc("numbers", {"name": "p", "offset": ">", "count": 2})
        timer = threading.Timer(0.1, lambda: client.ack("p"))
        timer.start()
        client.wait_for_procs("p")
        assert client.inspect_proc("p")["lastAckedAt"]
        timer.join()
        assert code_of(client.wait_for_procs, ["unknown"]) == "invalid_proc"

    def test_an_error_can_be_copied_and_caught_as_one_of_ours(self) -> None:
        with pytest.raises(errors.HeadraceError) as caught:
            pipeproc.PipeProcClient().ack("p")
        error = pickle.loads(pickle.dumps(caught.value))
        assert isinstance(error, PipeProcError)
        assert (error.code, str(error)) == (caught.value.code, str(caught.value))
        assert not error.retryable

    def test_an_error_tells_whether_to_try_again(self) -> None:
        found = pipeproc_error(errors.StoreBusy("locked", path="data"))
        assert (found.code, found.retryable, found.path) == ("store_busy", True, "data")
        assert pickle.loads(pickle.dumps(found)).retryable
