"""``headrace up`` as a process."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from node_process import PATIENCE, Up, command, fails, up

import headrace
from faults.polling import until
from headrace import local_nodes

APP = """
import os, headrace

app = headrace.App()

@app.task(queue="mail")
def send(pipe):
    with open(pipe, "w") as file:
        file.write(str(os.getpid()))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'flow.db'}"


def test_a_node_serves_a_store_until_a_signal(url: str) -> None:
    with up(url) as node:
        assert node.get("/ready") == (200, b'{"status":"ready"}')
        assert node.get("/health") == (200, b'{"status":"ok"}')
        record = local_nodes.find()
        assert record is not None
        assert (record.url, record.pid) == (node.url, node.process.pid)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
        assert local_nodes.find() is None


def test_a_node_fires_schedules(url: str) -> None:
    """Without any worker; a client adds one through the node, which wakes it."""
    with up(url) as node, headrace.connect(node.url) as hr:
        hr.queues.create("q")
        hr.schedules.add("s", at=int(time.time() * 1000) + 100, push=headrace.Push("q", "now"))
        [item] = hr.queue("q").claim(wait=PATIENCE)
        assert (item.payload, item.subject) == ("now", "s")
        assert node.get("/health") == (200, b'{"status":"ok"}')
        assert b'headrace_loop_age_seconds{loop="schedules"}' in node.get("/metrics", node.token)[1]


def test_a_node_says_that_it_stops(url: str) -> None:
    with up(url) as node:
        node.process.send_signal(signal.SIGINT)
        _, error = node.process.communicate(timeout=PATIENCE)
        assert "stopping: running requests finish" in error
        assert node.process.returncode == 0


def test_a_node_needs_a_token_that_only_its_user_finds(url: str) -> None:
    with up(url) as node:
        assert node.token is not None
        assert node.get("/api/v1/node")[0] == 401
        assert node.get("/api/v1/node", "hrt_wrong")[0] == 401
        assert node.get("/api/v1/node", node.token)[0] == 200
        assert node.get("/metrics")[0] == 401


def test_an_open_node_needs_none(url: str) -> None:
    with up(url, "--open") as node:
        assert node.token is None
        assert node.get("/api/v1/node")[0] == 200


def test_a_node_serves_willow_unless_told_not_to(url: str) -> None:
    """Beside its own API, for any client with a token."""
    for options, status in (((), 200), (("--no-willow",), 404)):
        with up(url, "--open", *options) as node:
            assert node.get("/v1/queues")[0] == status
            assert node.get("/api/v1/queues")[0] == 200


def test_metrics(url: str) -> None:
    with up(url, "--open") as node:
        assert node.get("/nowhere")[0] == 404
        status, body = node.get("/metrics")
        assert status == 200
        lines = body.decode().splitlines()
        assert "headrace_node_ready 1.0" in lines
        assert 'headrace_requests_total{route="",status="404"} 1' in lines
        assert any(line.startswith("headrace_operations_total{") for line in lines)
        names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
        assert all(name.startswith("headrace_") for name in names)


def test_a_killed_node_leaves_nothing_in_the_way(url: str) -> None:
    with up(url) as node:
        node.process.kill()
        node.process.wait(PATIENCE)
        assert local_nodes.find() is None
    with up(url) as node:
        assert local_nodes.find() is not None


def test_a_namespace_has_one_node(url: str) -> None:
    with up(url) as node:
        assert f"pid {node.pid}" in fails(url, "--listen", "127.0.0.1:0", code=1)
        with up(url, "--namespace", "other") as other:
            assert other.get("/ready")[0] == 200


def test_a_taken_port_or_socket_names_its_node(url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sockets" / "node.sock")
    with up(url, "--socket", path) as node:
        assert node.url == f"unix://{path}"
        assert node.token is None
        assert f"pid {node.pid}" in fails(url, "--namespace", "other", "--socket", path, code=1)
    with up(url) as node:
        address = node.url.removeprefix("http://")
        error = fails(url, "--namespace", "other", "--listen", address, code=1)
        assert f"is taken by a node with pid {node.pid}" in error


def test_a_port_of_another_program_is_named_too(url: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert f"pid {os.getpid()}" in fails(url, "--listen", address, code=1)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["http://127.0.0.1:7070"], "own URL"),
        (["unix:///run/node.sock"], "own URL"),
        (["sqlite:////nowhere/flow.db"], "/nowhere of the store does not exist"),
        (["nonsense"], "not a store's URL"),
        (["memory://", "--listen", "nonsense"], "host:port"),
        (["memory://", "--open", "--listen", "0.0.0.0:0"], "leave --open out"),
        (["memory://", "--tls-cert", "/nowhere.pem"], "give --tls-key"),
        (["memory://", "--tls-cert", "/no.pem", "--tls-key", "/no.key"], "/no.pem cannot be read"),
        (["memory://", "--namespace", "a/b"], "namespace"),
        (["memory://", "--worker", "nothing"], "module:name"),
        (["memory://", "--worker", "nothing:app"], "no module 'nothing'"),
        (["memory://", "--pipeline", "nothing:app"], "no module 'nothing'"),
    ],
)
def test_wrong_options_say_what_to_do(args: list[str], words: str) -> None:
    address = [] if "--listen" in args else ["--listen", "127.0.0.1:0"]
    error = fails(*args, *address, code=2)
    assert words in error
    assert "ready" not in error


def test_a_missing_library_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError('not installed')")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-m", "headrace", "up", url],
        capture_output=True,
        text=True,
        env=environ,
        timeout=PATIENCE,
        check=False,
    )
    assert "pip install 'headrace[node]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_store_that_is_away_makes_the_node_wait(tmp_path: Path) -> None:
    """Another program has locked the file."""
    path = tmp_path / "flow.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    process = subprocess.Popen(
        command("up", f"sqlite:///{path}", "--listen", "127.0.0.1:0", "--open", "--json"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        record = until(local_nodes.find, "the node's file")
        node = Up(process, {"url": record.url, "pid": record.pid, "incarnation": ""})
        status, body = node.get("/ready")
        assert status == 503
        assert b"not ready" in body
        assert node.get("/api/v1/node")[0] == 503
        other.execute("ROLLBACK")
        assert process.stdout is not None
        assert process.stdout.readline()
        assert node.get("/ready")[0] == 200
        assert node.get("/api/v1/node")[0] == 200
    finally:
        other.close()
        process.kill()
        process.communicate()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """What a task of the worker writes its pid to."""
    (tmp_path / "shop.py").write_text(APP)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def push(hr: headrace.Headrace, pipe: Path) -> int:
    """The pid of the worker that ran a task."""
    hr.push("mail", {"task": "send", "args": [str(pipe)], "kwargs": {}})
    return int(pipe.read_text())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_runs_beside_the_node_and_ends_with_it(url: str, pipe: Path) -> None:
    folder = pipe.parent
    with headrace.connect(url) as hr, up(url, "--worker", "shop:app", folder=folder) as node:
        first = push(hr, pipe)
        assert first != node.pid
        os.kill(first, signal.SIGKILL)
        second = push(hr, pipe)
        assert second not in (first, node.pid)
        node.process.send_signal(signal.SIGTERM)
        node.process.wait(PATIENCE)
        assert not is_alive(second)


REMOTE_APP = """
import headrace

app = headrace.App()

@app.task(queue="mail")
def send(started, go):
    open(started, "w").close()
    open(go).close()
"""


def test_a_worker_of_a_node_that_is_gone_names_what_it_could_not_settle(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(REMOTE_APP)
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(started)
    os.mkfifo(go)
    with headrace.connect(url) as hr, up(url, "--open") as node:
        worker = subprocess.Popen(
            command("worker", "shop:app", "--url", node.url, "--grace", "1"),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            arguments = [str(started), str(go)]
            [id] = hr.push("mail", {"task": "send", "args": arguments, "kwargs": {}}).ids
            started.read_bytes()
            node.process.kill()
            node.process.wait(PATIENCE)
            go.write_bytes(b"")
            worker.send_signal(signal.SIGINT)
            _, error = worker.communicate(timeout=2 * PATIENCE)
        finally:
            worker.kill()
            worker.communicate()
    assert worker.returncode == 4, error
    assert f"these items are not settled: mail: {id}." in error


def test_a_worker_ends_when_its_node_is_killed(url: str, pipe: Path) -> None:
    folder = pipe.parent
    with headrace.connect(url) as hr, up(url, "--worker", "shop:app", folder=folder) as node:
        worker = push(hr, pipe)
        node.process.kill()
        node.process.wait(PATIENCE)
        until(lambda: not is_alive(worker), "the end of the worker")
