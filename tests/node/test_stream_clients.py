"""Streams and sockets with clients that others wrote: curl, npm's eventsource, Node itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_process import PATIENCE, Up, up

import headrace

NPM = Path(__file__).resolve().parents[1] / "npm"
COUNT = 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Up]:
    with up(f"sqlite:///{tmp_path / 'flow.db'}", HEADRACE_MIGRATE="create") as node:
        yield node


def start(*command: str) -> subprocess.Popen[str]:
    """A program whose output is read."""
    assert shutil.which(command[0]), f"{command[0]} is missing: run scripts/ensure-node-tools"
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=NPM
    )


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out.split()


def stream_url(node: Up, query: str = "") -> str:
    return f"{node.url}/api/v1/topics/orders/stream{query}"


def test_curl_reads_a_stream(node: Up) -> None:
    with headrace.connect(node.url) as hr:
        ids = hr.commit_many("orders", [{"n": n} for n in range(COUNT)])
        process = start(
            "curl", "-sN", "-H", f"Authorization: Bearer {node.token}", stream_url(node)
        )
        assert process.stdout is not None
        found: list[str] = []
        while len(found) < COUNT:
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            found += [line[4:-1]] if line.startswith("id: ") else []
        process.kill()
        process.communicate()
        assert found == ids


@pytest.mark.parametrize("script", ["eventsource_client.mjs", "fetch_client.mjs"])
def test_node_reads_a_stream(node: Up, script: str) -> None:
    """What was committed before, and what is committed while it listens."""
    assert (NPM / "node_modules").is_dir(), "run scripts/ensure-node-tools"
    with headrace.connect(node.url) as hr:
        ids = hr.commit_many("orders", [{"n": n} for n in range(COUNT // 2)])
        process = start("node", script, stream_url(node), str(node.token), str(COUNT))
        assert process.stderr is not None
        assert process.stderr.readline() == "open\n"
        ids += [hr.commit("orders", {"n": n}) for n in range(COUNT // 2)]
        assert lines_of(process) == ids


def test_nodes_own_websocket_works_on_a_queue(node: Up) -> None:
    with headrace.connect(node.url) as hr:
        for n in range(COUNT):
            hr.push("mail", {"n": n})
        url = node.url.replace("http", "ws", 1) + "/api/v1/socket"
        # Of Node 20, where it is an experiment; later ones ignore that.
        options = ["--no-warnings", "--experimental-websocket"]
        process = start("node", *options, "socket_client.mjs", url, str(node.token), str(COUNT))
        assert [json.loads(line)["n"] for line in lines_of(process)] == list(range(COUNT))
        assert hr.queue("mail").stats().pending == 0
