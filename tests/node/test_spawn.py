"""``headrace.spawn``: a node in a process of its own."""

import asyncio
import errno
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from node_process import PATIENCE

import headrace
from faults.polling import until
from headrace import aio, local_nodes
from headrace.errors import (
    InvalidOption,
    InvalidUrl,
    NodeExists,
    NodeLost,
    NotConnected,
    OutcomeUnknown,
    StoreUnavailable,
)
from headrace.node.spawner import Spawner


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_spawned_node_serves_this_process_and_others(runtime: Path) -> None:
    with headrace.spawn(timeout=PATIENCE) as node:
        id = node.client.commit("my_topic", {"greeting": "hello"})
        assert node.pid != os.getpid()
        assert node.url == f"unix://{runtime}/default/node.sock"
        with headrace.connect(node.url) as other:
            assert [record.id for record in other.range("my_topic")] == [id]
        assert str(node.pid) in repr(node)
    assert not is_alive(node.pid)
    assert not (runtime / "default" / "node.sock").exists()
    assert local_nodes.find() is None
    with pytest.raises(NotConnected, match="spawn another"):
        _ = node.client
    assert not node.is_running
    node.shutdown()


def test_async_code_has_the_same() -> None:
    async def main() -> None:
        async with aio.spawn(timeout=PATIENCE) as node:
            await node.client.push("mail", {"to": "ann"})
            async with headrace.aconnect(node.url) as other:
                [stats] = await other.queues.stats()
                assert stats.pending == 1
        assert not is_alive(node.pid)
        with pytest.raises(NotConnected):
            _ = node.client
        node = await aio.spawn(timeout=PATIENCE)
        await node.shutdown()

    asyncio.run(main())


def test_by_tcp_programs_of_this_user_find_the_token(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'flow.db'}"
    with headrace.spawn(url, listen="127.0.0.1:0", timeout=PATIENCE) as node:
        node.client.push("mail", {"to": "ann"})
        with headrace.connect(node.url) as other:
            assert other.queues.stats()[0].pending == 1
        with headrace.connect(node.url.replace("127.0.0.1", "localhost")) as other:
            assert other.queues.stats()[0].pending == 1
        assert "hrt_" in node.client_url
        assert "hrt_" not in repr(node) + node.url
    # Workers and tools that open the store itself see the same.
    with headrace.connect(url) as hr:
        assert hr.queues.stats()[0].pending == 1


def test_a_crashed_node_is_started_again_with_the_same_socket(tmp_path: Path) -> None:
    with headrace.spawn(f"sqlite:///{tmp_path / 'flow.db'}", timeout=PATIENCE) as node:
        for n in range(3):
            node.client.push("mail", {"n": n})
            pid = node.pid
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: node.pid != pid, "the next process")
        assert node.client.queues.stats()[0].pending == 3


def test_a_client_learns_that_a_store_in_memory_was_lost() -> None:
    with headrace.spawn(timeout=PATIENCE) as node:
        node.client.push("mail", {"n": 1})
        os.kill(node.pid, signal.SIGKILL)
        with pytest.raises(NodeLost):
            node.client.push("mail", {"n": 2})
        assert node.client.push("mail", {"n": 3}).pushed == 1


def test_a_node_that_keeps_crashing_refuses_its_clients(tmp_path: Path, runtime: Path) -> None:
    with headrace.spawn(restarts=0, timeout=PATIENCE) as node:
        os.kill(node.pid, signal.SIGKILL)
        until(lambda: not node.is_running, "the end of the node")
        until(lambda: not (runtime / "default" / "node.sock").exists(), "the end of the socket")
        with pytest.raises(NotConnected, match="no node listens"):
            headrace.connect(node.url)
    # The namespace is free again.
    headrace.spawn(timeout=PATIENCE).shutdown()


def test_a_restart_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While restarts remain: the store may be back, and the machine may have processes again."""
    problems: list[Exception] = [
        StoreUnavailable("the store is away."),
        OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    ]
    launch = Spawner._launch

    def fail_first(spawner: Spawner, writer: int) -> subprocess.Popen[bytes]:
        if problems:
            raise problems.pop()
        return launch(spawner, writer)

    url = f"sqlite:///{tmp_path / 'flow.db'}"
    with headrace.spawn(url, restarts=3, timeout=PATIENCE) as node:
        monkeypatch.setattr(Spawner, "_launch", fail_first)
        pid = node.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: node.pid != pid, "the next process")
        assert not problems
        assert node.client.push("mail", {"n": 1}).pushed == 1


@pytest.mark.parametrize(
    "problem",
    [OSError(errno.EAGAIN, "no processes are left"), StoreUnavailable("the store is away.")],
)
def test_the_last_restart_that_fails_ends_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(spawner: Spawner, writer: int) -> subprocess.Popen[bytes]:
        raise problem

    with headrace.spawn(restarts=1, timeout=PATIENCE) as node:
        monkeypatch.setattr(Spawner, "_launch", fail)
        os.kill(node.pid, signal.SIGKILL)
        until(lambda: not node.is_running, "the end of the node")


def test_the_client_of_a_node_that_ended_does_not_wait(tmp_path: Path) -> None:
    """Its spawner knows that the node will not be back, so no call waits for its patience."""
    with headrace.spawn(f"sqlite:///{tmp_path / 'flow.db'}", restarts=0, timeout=PATIENCE) as node:
        node.client.push("mail", {"n": 1})
        os.kill(node.pid, signal.SIGKILL)
        until(lambda: not node.is_running, "the end of the node")
        with pytest.raises(NotConnected, match="code -9: spawn another"):
            node.client.push("mail", {"n": 2})
        with pytest.raises(NotConnected, match="spawn another"):
            node.client.queues.stats()


def test_an_async_client_of_a_node_that_ended_does_not_wait(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'flow.db'}"
        async with aio.spawn(url, restarts=0, timeout=PATIENCE) as node:
            await node.client.push("mail", {"n": 1})
            os.kill(node.pid, signal.SIGKILL)
            until(lambda: not node.is_running, "the end of the node")
            with pytest.raises(NotConnected, match="spawn another"):
                await node.client.push("mail", {"n": 2})

    asyncio.run(main())


def test_a_push_under_way_learns_that_the_node_ended(tmp_path: Path) -> None:
    """A push that meets the end of the node gets an error, long before patience ends."""
    with headrace.spawn(f"sqlite:///{tmp_path / 'flow.db'}", restarts=0, timeout=PATIENCE) as node:
        node.client._store.patience = 10 * PATIENCE
        os.kill(node.pid, signal.SIGKILL)
        with pytest.raises((NotConnected, OutcomeUnknown)):
            node.client.push("mail", {"n": 1})


def test_a_second_node_is_refused() -> None:
    with headrace.spawn(timeout=PATIENCE) as node:
        with pytest.raises(NodeExists, match=f"pid {node.pid}"):
            headrace.spawn()
        with headrace.spawn(namespace="other", timeout=PATIENCE) as other:
            assert other.url != node.url


@pytest.mark.parametrize(
    ("url", "options", "error", "words"),
    [
        ("http://127.0.0.1:7070", {}, InvalidOption, "own URL"),
        ("sqlite:////nowhere/flow.db", {}, InvalidOption, "/nowhere of the store does not exist"),
        ("kafka://x", {}, InvalidUrl, "no driver"),
        ("memory://", {"namespace": "a/b"}, InvalidOption, "namespace"),
        ("memory://", {"listen": "nonsense"}, InvalidOption, "host:port"),
        ("memory://", {"restarts": -1}, InvalidOption, "0 or more"),
        ("memory://", {"timeout": -1}, InvalidOption, "timeout"),
        ("memory://", {"colour": "red"}, InvalidOption, "no option 'colour'"),
        ("memory://", {"gc": {"minPruneTime": 5}}, InvalidOption, "min_age and interval"),
        ("memory://", {"workers": "shop:app"}, InvalidOption, "a list"),
        ("memory://", {"workers": ["shop"]}, InvalidOption, "module:app"),
        ("memory://", {"worker_concurrency": 0}, InvalidOption, "worker_concurrency"),
        ("memory://", {"worker_restart_after": -1}, InvalidOption, "worker_restart_after"),
        ("memory://", {"tls": {"server": {}}}, InvalidOption, "tls.server has no ca"),
        ("memory://", {"durability": "maybe"}, InvalidOption, "safe or relaxed"),
    ],
)
def test_wrong_options_are_refused(
    url: str, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        headrace.spawn(url, **{"timeout": PATIENCE, **options})  # type: ignore[arg-type]
    assert local_nodes.find() is None


def test_a_store_that_is_away_is_an_error_and_no_hang(tmp_path: Path) -> None:
    path = tmp_path / "flow.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="the store of the node is away"):
            headrace.spawn(f"sqlite:///{path}", timeout=10, patience=0)
    assert local_nodes.find() is None


def test_a_node_that_is_too_slow_is_an_error_and_no_hang() -> None:
    with pytest.raises(NodeLost, match="give it more time"):
        headrace.spawn(timeout=0)
    assert local_nodes.find() is None


def test_old_records_are_removed_if_asked_for() -> None:
    with headrace.spawn(gc={"min_age": 5, "interval": 7}, timeout=PATIENCE) as node:
        store = node.client._store
        retention = store.run(store.admin.default_retention())
        assert (retention.min_age, retention.interval) == (5, 7)


SPAWNER = """
import json, sys, headrace
options = json.loads(sys.argv[1])
node = headrace.spawn(timeout=60, **options)
print(json.dumps({"pid": node.pid, "url": node.url}), flush=True)
sys.stdin.read()
"""


def spawner(**options: object) -> tuple[subprocess.Popen[str], dict[str, str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SPAWNER, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_a_node_ends_with_its_spawner() -> None:
    process, node = spawner()
    process.kill()
    process.communicate()
    until(lambda: not is_alive(int(node["pid"])), "the end of the node")
    until(lambda: local_nodes.find() is None, "the end of the namespace")


def test_a_detached_node_does_not() -> None:
    process, node = spawner(detached=True)
    try:
        process.kill()
        process.communicate()
        with headrace.connect(node["url"]) as hr:
            hr.push("mail", {"n": 1})
        record = local_nodes.find()
        assert record is not None
        assert record.pid == int(node["pid"])
    finally:
        os.kill(int(node["pid"]), signal.SIGTERM)
    until(lambda: not is_alive(int(node["pid"])), "the end of the node")


FORK = """
import os, headrace
with headrace.spawn(timeout=60) as node:
    child = os.fork()
    if child == 0:
        node.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert node.client.push("mail", {"n": 1}).pushed == 1
    assert node.is_running
"""


def test_a_fork_does_not_end_the_node_of_its_parent() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=PATIENCE)


def test_clients_that_connect_during_a_restart_are_not_refused(tmp_path: Path) -> None:
    """32 clients push under kill -9; each push that was answered is in the store."""
    url = f"sqlite:///{tmp_path / 'flow.db'}"
    answered: list[int] = []
    is_over = threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with headrace.connect(node.url, patience=PATIENCE) as hr:
                n = 0
                while not is_over.is_set():
                    key = f"{number}-{n}"
                    hr.commit("t", {"n": key}, key=key)
                    answered.append(1)
                    n += 1
        except BaseException as error:
            failures.append(error)

    with headrace.spawn(url, timeout=PATIENCE, restarts=3) as node:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            before = len(answered)
            until(lambda before=before: len(answered) > before + 100, "100 answers")
            pid = node.pid
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: node.pid != pid, "the next process")
        before = len(answered)
        until(lambda: len(answered) > before + 100, "100 answers")
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert not failures, failures[:3]
        assert node.client.topic("t").length() == len(answered)


def test_a_stopped_spawner_leaves_no_descriptors() -> None:
    headrace.spawn(timeout=PATIENCE).shutdown()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        headrace.spawn(timeout=PATIENCE).shutdown()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


APP = """
import os, headrace

app = headrace.App()

@app.task(queue="mail")
def send():
    open(f"pids/{os.getpid()}", "w").close()

@app.pipeline(source="numbers", to="doubled")
def double(body):
    return {"n": 2 * body["n"]}
"""


def test_workers_of_a_node_in_memory_are_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is started again after each item, as asked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "pids").mkdir()

    def pids() -> list[int]:
        return [int(path.name) for path in (tmp_path / "pids").iterdir()]

    with headrace.spawn(
        workers=["shop:app"],
        pipelines=["shop:app"],
        worker_concurrency=1,
        worker_restart_after=1,
        timeout=PATIENCE,
    ) as node:

        def has_restarted() -> bool:
            # A process that has had its item may get more while it stops.
            node.client.push("mail", {"task": "send", "args": [], "kwargs": {}})
            return len(pids()) > 1

        until(has_restarted, "the next worker process")
        node.client.commit("numbers", {"n": 21})
        until(lambda: "doubled" in [t.name for t in node.client.topics.list()], "the pipeline")
        [record] = node.client.range("doubled")
        assert record.body == {"n": 42}
    assert not any(is_alive(pid) for pid in pids())


@pytest.mark.parametrize("url", ["memory://", "sqlite:///flow.db"])
def test_a_worker_that_cannot_run_says_why(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is that of ``spawn``, and no node is left."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match="no module 'nothing'"):
        headrace.spawn(url, workers=["nothing:app"], timeout=PATIENCE)
    (tmp_path / "empty.py").write_text("import headrace\napp = headrace.App()\n")
    with pytest.raises(InvalidOption, match="empty:app has no pipelines"):
        headrace.spawn(url, pipelines=["empty:app"], timeout=PATIENCE)
    assert local_nodes.find() is None


def test_a_node_whose_worker_can_no_longer_run_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of its app was removed while it ran."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "pids").mkdir()
    options = {"workers": ["shop:app"], "worker_restart_after": 1, "timeout": PATIENCE}
    with headrace.spawn("sqlite:///flow.db", **options) as node:
        pid = node.pid
        (tmp_path / "shop.py").unlink()
        node.client.push("mail", {"task": "send", "args": [], "kwargs": {}})
        until(lambda: not node.is_running, "the end of the node")
        assert node.pid == pid
        with pytest.raises(NotConnected, match="cannot run"):
            node.client.queues.stats()


def test_tls_with_certificates_of_both_sides(certificates: Path) -> None:
    def side(name: str, other: str) -> dict[str, str]:
        return {
            "key": str(certificates / f"{name}.key"),
            "cert": str(certificates / f"{name}.pem"),
            "ca": str(certificates / f"{other}.pem"),
        }

    tls = {"server": side("node", "client"), "client": side("client", "node")}
    with headrace.spawn(listen="127.0.0.1:0", tls=tls, timeout=PATIENCE) as node:
        node.client.push("mail", {"to": "ann"})
        assert node.url.startswith("https://")
        # A restart reads the files again.
        os.kill(node.pid, signal.SIGKILL)
        with pytest.raises(NodeLost):
            node.client.push("mail", {"to": "bob"})
        stranger = side("stranger", "node")
        options = "&".join(f"{name}={path}" for name, path in stranger.items())
        for url in (node.url, f"{node.url}?ca={stranger['ca']}", f"{node.url}?{options}"):
            with pytest.raises(headrace.HeadraceError):
                headrace.connect(url, patience=0)
    for missing in ("key", "cert", "ca"):
        wrong = {**tls, "client": {**tls["client"], missing: "/nowhere.pem"}}
        with pytest.raises(InvalidOption, match=r"/nowhere\.pem cannot be read"):
            headrace.spawn(listen="127.0.0.1:0", tls=wrong)
    with pytest.raises(InvalidOption, match="TLS is for TCP"):
        headrace.spawn(tls=tls)


def test_a_socket_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "sockets" / "mine.sock"
    with headrace.spawn(socket=path, timeout=PATIENCE) as node:
        assert node.url == f"unix://{path}"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
