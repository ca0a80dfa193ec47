"""Listening sockets: private, and never another node's."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import local_nodes
from headrace.errors import InvalidOption, NodeExists
from headrace.local_nodes import NodeRecord
from headrace.node.options import NodeOptions
from headrace.node.process import NodeProcess
from headrace.node.server import NodeServer
from headrace.node.sockets import (
    adopt,
    is_loopback,
    listen_tcp,
    listen_unix,
    parse_address,
    tcp_url,
)

HOLD = """
import sys
from pathlib import Path
from headrace.node.sockets import listen_unix
listener = listen_unix(Path(sys.argv[1]))
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_node_that_crashes_leaves_its_socket_to_the_next_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its spawner still listens there. A node that stops in order removes the file."""
    monkeypatch.setenv(local_nodes.FOLDER_VARIABLE, str(tmp_path / "run"))

    def crash(server: NodeServer) -> None:
        raise RuntimeError("unexpected")

    spawned = listen_unix(path)
    inherited = adopt(spawned.url, [os.dup(fd) for fd in spawned.fds])
    monkeypatch.setattr(NodeServer, "run", crash)
    lock = local_nodes.lock_namespace("crash")
    node = NodeProcess(NodeOptions(url="memory://", namespace="crash"), [inherited], lock)
    with pytest.raises(RuntimeError):
        node.run()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    inherited = adopt(spawned.url, [os.dup(fd) for fd in spawned.fds])
    monkeypatch.setattr(NodeServer, "run", lambda server: None)
    lock = local_nodes.lock_namespace("crash")
    NodeProcess(NodeOptions(url="memory://", namespace="crash"), [inherited], lock).run()
    assert not path.exists()
    spawned.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sockets" / "node.sock"


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that listens on a path until it is killed."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "listening\n"
    return child


def test_only_this_user_can_connect(path: Path) -> None:
    before = os.umask(0)
    try:
        listener = listen_unix(path)
    finally:
        os.umask(before)
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) & 0o022 == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        assert listener.url == f"unix://{path}"
    finally:
        listener.close()
    assert not path.exists()


def test_a_second_node_on_a_path_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    child = hold(path)
    try:
        with pytest.raises(NodeExists, match=f"pid {child.pid}") as caught:
            listen_unix(path)
        assert caught.value.pid == child.pid
        assert path.exists()
    finally:
        child.communicate("")
    listen_unix(path).close()


def test_the_file_of_a_killed_node_is_replaced(path: Path) -> None:
    child = hold(path)
    child.kill()
    child.communicate()
    assert path.exists()
    listener = listen_unix(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.close()


def test_what_is_not_a_dead_node_stays(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")
    with pytest.raises(InvalidOption, match="not a socket"):
        listen_unix(path)
    assert path.read_text() == "precious"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(NodeExists, match="not a node"):
            listen_unix(path)
    assert path.exists()


def test_a_folder_of_others_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(mode=0o777)
    path.parent.chmod(0o777)
    with pytest.raises(InvalidOption, match="chmod go-w"):
        listen_unix(path)
    path.parent.chmod(0o700)
    os.chown(path.parent, os.geteuid(), -1)
    found = os.stat_result([*path.parent.stat()[:4], os.geteuid() + 1, *path.parent.stat()[5:]])
    monkeypatch.setattr(Path, "stat", lambda self, **_: found)
    with pytest.raises(InvalidOption, match="belongs to another user"):
        listen_unix(path)


def test_a_link_in_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    (tmp_path / "precious").write_text("kept")
    path.with_name("node.sock.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidOption, match="symbolic links"):
        listen_unix(path)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_path_that_is_too_long_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="choose another path"):
        listen_unix(tmp_path / ("x" * 120))


FORK = """
import os, sys
from pathlib import Path
from headrace.node.sockets import listen_unix
path = Path(sys.argv[1])
listener = listen_unix(path)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    # Lives on after the parent has closed the listener.
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
os.close(reader)
listener.close()
listen_unix(path).close()
os.close(writer)
os.waitpid(child, 0)
"""


def test_a_child_of_a_fork_neither_listens_nor_keeps_the_lock(path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(path)], check=True, timeout=60)


def test_a_process_listens_on_inherited_descriptors(path: Path) -> None:
    listener = listen_unix(path)
    copies = [os.dup(fd) for fd in listener.fds]
    adopted = adopt(listener.url, copies)
    assert adopted.path == path
    listener._leave()
    with pytest.raises(NodeExists, match=f"pid {os.getpid()}"):
        listen_unix(path)
    adopted.close()
    assert not path.exists()


def test_a_taken_port_names_its_process(tmp_path: Path) -> None:
    listener = listen_tcp("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    with pytest.raises(
        NodeExists, match=rf"port {port} of 127.0.0.1 is taken by .*pid {os.getpid()}"
    ):
        listen_tcp("127.0.0.1", port)
    listener.close()
    listen_tcp("127.0.0.1", port).close()


def test_a_taken_port_names_the_node_that_has_it() -> None:
    listener = listen_tcp("127.0.0.1", 0)
    lock = local_nodes.lock_namespace("shop")
    local_nodes.write("shop", NodeRecord(url=listener.url, pid=4242, incarnation="i"))
    with pytest.raises(NodeExists, match="by a node with pid 4242"):
        listen_tcp("127.0.0.1", listener.socket.getsockname()[1])
    lock.release()
    listener.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7070", ("127.0.0.1", 7070)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
        (":7070", ("0.0.0.0", 7070)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "7070", "host", "host:", "host:70000", "::1:80", "a:b:1"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="host:port"):
        parse_address(text)


def test_hosts_that_cannot_be_listened_on() -> None:
    with pytest.raises(InvalidOption, match="not known"):
        listen_tcp("no.such.host.invalid", 7070)
    with pytest.raises(InvalidOption, match="not an address of this machine"):
        listen_tcp("203.0.113.1", 7070)


def test_urls_are_those_that_clients_of_this_machine_use() -> None:
    assert tcp_url("0.0.0.0", 7070, is_tls=False) == "http://127.0.0.1:7070"
    assert tcp_url("::", 7070, is_tls=True) == "https://[::1]:7070"


@pytest.mark.parametrize(
    ("host", "is_private"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("127.example.com", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback(host: str, is_private: bool) -> None:
    assert is_loopback(host) is is_private
