"""System procs on the worker processes of a spawned node: processors that are named by a path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from async_facade import Blocking, LoopThread

import headrace
from headrace.compat import pipeproc, pipeproc_workers
from headrace.compat.aio import pipeproc as async_pipeproc
from headrace.compat.pipeproc import PipeProcError

SECONDS = 100.0
"""Far more than a process needs to start, however busy the machine is."""

PIDS = """
import os

def pids(log, done):
    print("processors may print")
    done(None, {"n": log["body"]["n"], "pid": os.getpid()})

def negated(log):
    return {"n": -log["body"]["n"], "pid": os.getpid()}
"""


@pytest.fixture(autouse=True)
def no_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes seconds to start, and one test is about it."""
    if "spark" not in request.node.name:
        monkeypatch.setattr(pipeproc_workers, "choose_engine", lambda: "inline")


@pytest.fixture
def pids(tmp_path: Path) -> str:
    """The path of a processor whose results name the process."""
    path = tmp_path / "pids.py"
    path.write_text(PIDS)
    return str(path)


@pytest.fixture
def sqlite(quick_path: Path) -> dict[str, Any]:
    return {"location": str(quick_path / "pipeproc data")}


@pytest.fixture
def spawned() -> Iterator[Callable[..., Any]]:
    """Spawns nodes with blocking clients, which are shut down after the test."""
    made = []

    def spawn(**options: Any) -> Any:
        client = pipeproc.PipeProcClient()
        made.append(client)
        client.spawn(**options)
        return client

    yield spawn
    for client in made:
        with suppress(PipeProcError):  # the test has shut it down
            client.shutdown()


def commit(client: Any, *numbers: int) -> None:
    client.commit([{"topic": "numbers", "body": {"n": n}} for n in numbers])


def run(client: Any, processor: Any, name: str = "p", **options: Any) -> Any:
    return client.system_proc(
        {"name": name, "offset": ">", "from": "numbers", "to": "out", "processor": processor}
        | options
    )


def bodies(client: Any, count: int, topic: str = "out") -> list[Any]:
    """The bodies of a topic, once there are so many."""
    give_up = time.monotonic() + SECONDS
    while True:
        found: list[Any] = []
        with suppress(PipeProcError):  # invalid_topic
            found = [log["body"] for log in client.range(topic)]
        if len(found) >= count:
            return found
        assert time.monotonic() < give_up, f"{topic} has {found}"
        time.sleep(0.02)


def wait_until_gone(pid: int) -> None:
    give_up = time.monotonic() + SECONDS
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        stat = Path(f"/proc/{pid}/stat")
        with suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        assert time.monotonic() < give_up, f"process {pid} still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_named_processor_runs_on_a_worker_and_a_function_here(
    mode: str, loop: LoopThread, store: str, sqlite: dict[str, Any], pids: str
) -> None:
    client: Any = pipeproc.PipeProcClient()
    if mode == "async":
        client = Blocking(async_pipeproc.PipeProcClient(), loop)
    client.spawn({"memory": True} if store == "memory" else sqlite)
    commit(client, 1, 2)
    record = run(client, pids)
    assert (record["name"], record["status"]) == ("p", "active")
    found = bodies(client, 2)
    [worker] = {body["pid"] for body in found}
    assert worker != os.getpid()
    assert [body["n"] for body in found] == [1, 2]

    # A function replaces it, and runs here. Then another function of the file does, over there.
    run(client, lambda log: {"n": log["body"]["n"], "pid": os.getpid()})
    commit(client, 3)
    assert bodies(client, 3)[2] == {"n": 3, "pid": os.getpid()}
    run(client, f"{pids}:negated")
    commit(client, 4)
    assert bodies(client, 4)[3] == {"n": -4, "pid": worker}
    assert client.shutdown() == "closed"
    wait_until_gone(worker)


def test_on_spark_where_the_store_is_a_database(
    spawned: Callable[..., Any], sqlite: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "in_task.py"
    path.write_text(
        "def in_task(log, done):\n"
        "    from pyspark import TaskContext\n"
        "    done(None, {'is_task': TaskContext.get() is not None})\n"
    )
    client = spawned(**sqlite)
    commit(client, 1)
    run(client, str(path))
    assert bodies(client, 1) == [{"is_task": True}]


def test_system_procs_are_distributed_over_the_workers(
    spawned: Callable[..., Any], pids: str
) -> None:
    client = spawned(memory=True, workers=2)
    commit(client, 1)
    for name in ("a", "b", "c"):
        run(client, pids, name, to=f"out_{name}")
    a, b, c = (bodies(client, 1, f"out_{name}")[0]["pid"] for name in ("a", "b", "c"))
    assert a != b
    assert c in (a, b)


MEET = """
import pathlib, time

def meet(log, done):
    here = pathlib.Path(__file__).parent / "met"
    (here / log["body"]["me"]).touch()
    give_up = time.monotonic() + {seconds}
    while len(list(here.iterdir())) < 2 and time.monotonic() < give_up:
        time.sleep(0.01)
    done(None, {{"met": len(list(here.iterdir())) == 2}})
    {after}
"""


@pytest.mark.parametrize("concurrency", [1, 2])
def test_worker_concurrency_is_how_many_processors_run_at_a_time(
    spawned: Callable[..., Any], tmp_path: Path, concurrency: int
) -> None:
    """Two processors wait for each other: two at a time meet, one at a time do not."""
    (tmp_path / "met").mkdir()
    path = tmp_path / "meet.py"
    is_alone = concurrency == 1
    after = '(here / log["body"]["me"]).unlink()' if is_alone else ""
    path.write_text(MEET.format(seconds=0.5 if is_alone else SECONDS, after=after))
    client = spawned(memory=True, workerConcurrency=concurrency)
    for me in ("a", "b"):
        run(client, str(path), me, **{"from": f"in_{me}"})
    client.commit([{"topic": f"in_{me}", "body": {"me": me}} for me in ("a", "b")])
    assert bodies(client, 2) == [{"met": not is_alone}] * 2


def test_a_worker_is_started_again_after_so_many_logs(
    spawned: Callable[..., Any], pids: str
) -> None:
    client = spawned(memory=True, workerRestartAfter=2)
    commit(client, *range(6))
    run(client, pids)
    found = bodies(client, 6)
    assert [body["n"] for body in found] == [*range(6)]
    each = [body["pid"] for body in found]
    assert each[::2] == each[1::2]
    assert len(set(each)) == 3


def test_a_low_limit_of_logs_leaves_some_for_every_system_proc(
    spawned: Callable[..., Any], pids: str
) -> None:
    client = spawned(memory=True, workerRestartAfter=1)
    commit(client, *range(5))
    for name in ("a", "b"):
        run(client, pids, name, to=name)
    for name in ("a", "b"):
        assert [body["n"] for body in bodies(client, 5, name)] == [*range(5)]


def test_a_worker_that_was_killed_is_started_again_and_what_was_destroyed_stays_so(
    spawned: Callable[..., Any], pids: str
) -> None:
    client = spawned(memory=True)
    commit(client, 1)
    run(client, pids, "gone", to="others")
    run(client, pids)
    worker = bodies(client, 1)[0]["pid"]
    bodies(client, 1, "others")
    client.wait_for_procs()
    client.destroy_proc("gone")
    os.kill(worker, signal.SIGKILL)
    commit(client, 2)
    last = bodies(client, 2)[1]
    assert last["n"] == 2
    assert last["pid"] != worker
    with pytest.raises(PipeProcError, match="invalid_proc"):
        client.inspect_proc("gone")


def test_system_procs_outlive_a_crash_of_the_node(
    spawned: Callable[..., Any], sqlite: dict[str, Any], pids: str
) -> None:
    client = spawned(**sqlite)
    commit(client, 1)
    run(client, pids)
    worker = bodies(client, 1)[0]["pid"]
    os.kill(client._node.spawned.pid, signal.SIGKILL)
    # Without the node: workers have opened the store itself.
    with headrace.connect(f"sqlite:///{sqlite['location']}") as hr:
        hr.commit("numbers", {"n": 2})
        give_up = time.monotonic() + SECONDS
        while hr.topic("out").length() < 2:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert hr.range("out")[1].body == {"n": 2, "pid": worker}


def test_wrong_processors_are_refused_with_the_reason(
    spawned: Callable[..., Any], pids: str, tmp_path: Path
) -> None:
    client = spawned(memory=True)
    commit(client, 1)
    run(client, pids, "good")
    bodies(client, 1)
    (tmp_path / "raises.py").write_text("raise RuntimeError('no license')")
    (tmp_path / "exits.py").write_text("import os\nos._exit(5)")
    for processor, reason in (
        (f"{tmp_path}/missing.py", "No such file"),
        (f"{pids}:missing", "has no attribute 'missing'"),
        (f"{tmp_path}/raises.py", "no license"),
        ("no_such_module:function", "No module named"),
        ("text", "module:function"),
        (f"{tmp_path}/exits.py", "code 5"),
    ):
        with pytest.raises(PipeProcError, match=reason) as caught:
            run(client, processor)
        assert caught.value.code == "no_valid_processor_provided"
    with pytest.raises(PipeProcError, match="invalid_proc"):
        client.inspect_proc("p")
    with pytest.raises(PipeProcError, match="proc_name_not_unique"):
        run(client, pids, "good", **{"from": "elsewhere"})
    # The others of that worker go on.
    commit(client, 2)
    assert bodies(client, 2)[1]["n"] == 2


def test_what_only_the_database_names_is_not_executed(
    spawned: Callable[..., Any],
    sqlite: dict[str, Any],
    pids: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # workers can import it
    marker = tmp_path / "executed"
    (tmp_path / "foreign.py").write_text(f"open({str(marker)!r}, 'w')\ndef f(body): pass\n")
    client = spawned(**sqlite)
    run(client, pids)
    run(client, pids, "witness", to="witnessed")
    with headrace.connect(f"sqlite:///{sqlite['location']}") as hr:
        hr.pipelines.create("p", source="numbers", to="out", processor="foreign:f")
    for n in range(3):
        # Each log wakes both system procs of the worker.
        commit(client, n)
        bodies(client, n + 1, "witnessed")
    run(client, pids)
    assert [body["n"] for body in bodies(client, 3)] == [0, 1, 2]
    assert not marker.exists()


def test_a_client_that_only_connects_runs_processors_itself(
    spawned: Callable[..., Any], pids: str
) -> None:
    commit(spawned(memory=True), 1)
    other = pipeproc.PipeProcClient()
    other.connect()
    try:
        run(other, pids)
        assert bodies(other, 1) == [{"n": 1, "pid": os.getpid()}]
    finally:
        other.shutdown()


def test_workers_end_with_the_process_that_spawned(tmp_path: Path, pids: str) -> None:
    code = f"""if True:
        import sys
        from headrace.compat import pipeproc
        pipeproc.spawn({{"memory": True}})
        pipeproc.commit({{"topic": "numbers", "body": {{"n": 1}}}})
        pipeproc.system_proc({{"name": "p", "offset": ">", "from": "numbers", "to": "out",
                              "processor": {pids!r}}})
        pipeproc.wait_for_procs("p")
        print(pipeproc.range("out")[0]["body"]["pid"], flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
        wait_until_gone(worker)
