"""The file by which local tools find a node."""

import contextlib
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_process import PATIENCE

from headrace import local_nodes
from headrace.errors import InvalidOption, NodeExists
from headrace.local_nodes import NodeRecord
from headrace.node.lifeline import Lifeline

RECORD = NodeRecord(url="http://127.0.0.1:7070", pid=42, incarnation="one", token="hrt_secret")


def test_local_tools_find_a_running_node(runtime: Path) -> None:
    assert local_nodes.find() is None
    lock = local_nodes.lock_namespace("default")
    local_nodes.write("default", RECORD)
    assert local_nodes.find() == RECORD
    assert local_nodes.find_by_url("http://127.0.0.1:7070/") == RECORD
    assert local_nodes.find_by_url("http://127.0.0.1:7071") is None
    assert list(local_nodes.find_all()) == [RECORD]
    local_nodes.remove("default", "one")
    assert local_nodes.find() is None
    lock.release()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_localhost_and_its_address_are_the_same(runtime: Path, host: str) -> None:
    lock = local_nodes.lock_namespace("default")
    record = NodeRecord(url=f"http://{host}:7070", pid=42, incarnation="one", token="hrt_secret")
    local_nodes.write("default", record)
    for url in ("http://localhost:7070", "http://127.0.0.1:7070"):
        assert local_nodes.find_by_url(url) == record
    lock.release()


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """A child of a fork that lives until the end of the block."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)


def test_a_forked_child_does_not_keep_the_lock(runtime: Path) -> None:
    lock = local_nodes.lock_namespace("default")
    with forked():
        lock.release()
        local_nodes.lock_namespace("default").release()


def test_a_forked_child_does_not_keep_the_lifeline() -> None:
    """Its parent's end is the end of what the parent has started."""
    lifeline = Lifeline()
    reading = os.dup(lifeline.reader)
    with forked():
        lifeline.cut()
        found, _, _ = select.select([reading], [], [], PATIENCE)
        assert found
        assert os.read(reading, 1) == b""
    os.close(reading)


def test_only_this_user_reads_the_token(runtime: Path) -> None:
    lock = local_nodes.lock_namespace("default")
    before = os.umask(0)
    try:
        local_nodes.write("default", RECORD)
    finally:
        os.umask(before)
    file = runtime / "default" / "node.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(file.name for file in file.parent.iterdir()) == ["node.json", "node.lock"]
    assert "hrt_secret" not in repr(RECORD)
    file.chmod(0o644)
    assert local_nodes.find() is None
    lock.release()


def test_the_file_of_a_dead_node_is_not_used(runtime: Path) -> None:
    lock = local_nodes.lock_namespace("default")
    local_nodes.write("default", RECORD)
    lock.release()  # as the kernel does for a process that was killed
    assert local_nodes.find() is None
    assert (runtime / "default" / "node.json").exists()


def test_a_node_removes_only_its_own_file() -> None:
    lock = local_nodes.lock_namespace("default")
    local_nodes.write("default", RECORD)
    local_nodes.remove("default", "another")
    assert local_nodes.find() == RECORD
    lock.release()


def test_a_link_in_place_of_the_file_is_not_followed(runtime: Path, tmp_path: Path) -> None:
    lock = local_nodes.lock_namespace("default")
    other = tmp_path / "other.json"
    other.write_text("precious")
    (runtime / "default" / "node.json").symlink_to(other)
    assert local_nodes.find() is None
    local_nodes.write("default", RECORD)
    assert local_nodes.find() == RECORD
    assert other.read_text() == "precious"
    lock.release()


def test_a_namespace_has_one_node() -> None:
    lock = local_nodes.lock_namespace("shop")
    local_nodes.write("shop", RECORD)
    with pytest.raises(NodeExists, match=r"'shop' has a node already at http://.*\(pid") as caught:
        local_nodes.lock_namespace("shop")
    assert caught.value.pid == os.getpid()
    local_nodes.lock_namespace("other").release()
    lock.release()
    local_nodes.lock_namespace("shop").release()


def test_a_folder_that_others_may_enter_is_refused(runtime: Path) -> None:
    (runtime / "shop").mkdir(parents=True)
    runtime.chmod(0o700)
    (runtime / "shop").chmod(0o755)
    with pytest.raises(InvalidOption, match="chmod 700"):
        local_nodes.lock_namespace("shop")


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    local_nodes.lock_namespace("shop").release()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(InvalidOption, match="another user"):
        local_nodes.lock_namespace("shop")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "x" * 65, "a b", None, 5])
def test_other_namespaces_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="namespace"):
        local_nodes.namespace_folder(name)


def test_a_file_that_is_not_ours_is_ignored(runtime: Path) -> None:
    lock = local_nodes.lock_namespace("default")
    file = runtime / "default" / "node.json"
    for text in (b"", b"[]", b'{"url": 5}', b"\xff"):
        file.write_bytes(text)
        file.chmod(0o600)
        assert local_nodes.find() is None
    lock.release()


def test_the_folder_of_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADRACE_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert local_nodes.runtime_folder() == tmp_path / "headrace"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert local_nodes.runtime_folder().name == f"headrace-{os.geteuid()}"
