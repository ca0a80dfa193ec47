"""Willow's own document: its requests as it writes them, under the rules of its limiter's document."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from willow_words import CHANNELS, Willow, counter, decoded, encoded, serving, text, where

from headrace.stores import open_store
from headrace.testing.clocks import FakeClock
from served_node import ServedNode

REQUESTS = Path(__file__).with_name("willow_requests.txt")
COMMIT = "git commit to build"
CURL = "curl"


class ExampleRequest:
    """A block of the document. The one that only has a body is one more query."""

    def __init__(self, block: str) -> None:
        head, _, rest = block.partition("\n")
        is_whole = head.startswith("#")
        self.method, self.path = head.split()[1:] if is_whole else ("GET", ITEMS)
        self.body = mended(rest if is_whole else block)


ITEMS = "/v1/queues/git%20commits/channels/items"


def mended(text: str) -> bytes:
    """The JSON that a block means: its slips are mended, and nothing else."""
    text = re.sub(r"//.*", "", text)
    text = text.replace(f"[{COMMIT}]", f'"{encoded(COMMIT)}"')
    text = text.replace('"TimeoutDuration:', '"TimeoutDuration":')
    text = text.replace('"branch_name" {', '"branch_name": {')
    text = re.sub(r",(\s*[}\]])", r"\1", text)
    msgspec.json.decode(text)
    return text.encode()


def requests() -> list[ExampleRequest]:
    blocks = re.split(r"\n\n(?=[#{])", REQUESTS.read_text("utf-8"))
    found = [ExampleRequest(block) for block in blocks]
    assert len(found) == 7
    return found


@pytest.fixture
def opened(store_url: str) -> Callable[[], Any]:
    return lambda: open_store(store_url, clock=FakeClock())


async def make_rules(willow: Willow) -> str:
    """One build of a branch at a time; main on all systems, other branches on Linux only."""
    builds = await willow.rule(1, repo_name=None, branch_name=None)
    await willow.rule(-1, builds, repo_name="willow", branch_name="main")
    systems = await willow.rule(0, os=None)
    await willow.rule(-1, systems, os="linux")
    for os in ("windows", "mac"):
        await willow.rule(-1, systems, os=os, branch_name="main")
    return builds


async def test_the_four_steps(opened: Callable[[], Any]) -> None:
    create, first, second, third, linux, main, ack = requests()
    assert [one.path.rpartition("/")[2] for one in (first, second, ack)] == ["item", "items", "ack"]
    async with serving(opened()) as willow:
        await make_rules(willow)

        async def send(one: ExampleRequest, status: int, body: bytes | None = None) -> Any:
            return await willow.ok(one.method, one.path, body or one.body, status)

        await send(create, 201)
        made = await willow.ok("GET", "/v1/queues/git%20commits")
        assert made["Spec"]["Properties"] == {"MaxItems": 50}
        for one in (first, second, third):
            await send(one, 201)
        # Only the main branch on Linux: the third item.
        taken = await send(main, 200)
        assert text(taken) == {"branch_name": "main", "os": "linux", "repo_name": "willow"}
        assert decoded(taken) == COMMIT
        assert taken["Spec"]["Properties"]["TimeoutDuration"] == 1_000_000_000
        # All branches on Linux: the first one is what is left of items one and three.
        other = await send(linux, 200)
        assert text(other)["branch_name"] == "new_feature_72"
        # A second build of that branch waits until the first one is acked.
        await send(first, 201)
        waiting = willow.begin(linux.method, linux.path, linux.body)
        body = ack.body.replace(b"[guid]", other["State"]["ID"].encode())
        wrong_channel = await willow(ack.method, ack.path, body)
        assert wrong_channel.status == 404
        body = body.replace(b'"main"', b'"new_feature_72"')
        assert not waiting.task.done()
        await send(ack, 200, body)
        await waiting.task
        assert text(waiting.answer.json) == text(other)
        # The main branch is acked as the document says, and its channel is gone.
        await send(ack, 200, ack.body.replace(b"[guid]", taken["State"]["ID"].encode()))
        found = await willow.ok("GET", CHANNELS.replace("/q/", "/git%20commits/"), {})
        assert sorted(text(one)["os"] for one in found) == ["linux", "windows"]


async def test_counters_under_the_rules(opened: Callable[[], Any]) -> None:
    """The limiter's example: each line is one more build, in this order."""
    async with serving(opened()) as willow:
        await make_rules(willow)
        lines: list[tuple[str | None, str | None, int]] = [
            ("main", "windows", 200),
            ("main", "windows", 200),
            ("main", "mac", 200),
            ("main", "linux", 200),
            ("f72", "windows", 409),
            ("f72", "mac", 409),
            ("f72", "linux", 200),
            ("f72", "linux", 409),
            ("f73", "linux", 200),
            ("main", "bsd", 409),
            ("f99", None, 200),
            ("f99", None, 409),
            (None, "linux", 200),
            (None, "mac", 409),
        ]
        for branch, os, status in lines:
            pairs = {} if branch is None else {"repo_name": "willow", "branch_name": branch}
            pairs |= {} if os is None else {"os": os}
            assert await willow.count(**pairs) == status, pairs
        f72 = {"repo_name": "willow", "branch_name": "f72", "os": "linux"}
        assert await willow.count(-1, **f72) == 200
        assert await willow.count(**f72) == 200


async def test_one_build_of_a_branch_without_the_override(opened: Callable[[], Any]) -> None:
    """The second step of that example, before main is an exception."""
    async with serving(opened()) as willow:
        await willow.rule(1, repo_name=None, branch_name=None)
        f72 = {"repo_name": "willow", "branch_name": "new_feature_72"}
        assert await willow.count(**f72, os="windows") == 200
        for os in ("windows", "mac", "linux"):
            answer = await willow.refused("PUT", "/v1/limiter/counters", counter(1, **f72, os=os))
            assert answer == (409, "limit_reached")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    served = ServedNode(tmp_path_factory.mktemp("node"))
    yield served
    served.close()


def test_with_curl(node: ServedNode, store_url: str) -> None:
    """The requests, as a program sends them that nobody here wrote: GET with a body, and no type."""
    create, first, second, third, linux, main, ack = requests()

    def curl(method: str, path: str, body: bytes) -> tuple[int, Any]:
        done = subprocess.run(
            [
                *(CURL, "--silent", "--show-error", "--max-time", "30", "--request", method),
                *("--header", "Content-Type:", "--data-binary", "@-"),
                *("--write-out", "\n%{http_code}", node.tcp_url + path),
            ],
            input=body,
            capture_output=True,
            check=True,
        )
        content, _, status = done.stdout.rpartition(b"\n")
        return int(status), msgspec.json.decode(content) if content else None

    with node.serving(store_url):
        statuses = [curl(one.method, one.path, one.body)[0] for one in (create, first, second)]
        assert statuses == [201, 201, 201]
        answers: list[Any] = []
        waiting = threading.Thread(
            target=lambda: answers.append(curl(main.method, main.path, main.body))
        )
        waiting.start()
        assert curl(third.method, third.path, third.body) == (201, None)
        waiting.join(30)
        [(status, taken)] = answers
        assert (status, decoded(taken)) == (200, COMMIT)
        body = ack.body.replace(b"[guid]", taken["State"]["ID"].encode())
        assert curl(ack.method, ack.path, body) == (200, None)
        status, refusal = curl(ack.method, ack.path, body)
        assert (status, refusal["code"]) == (404, "item_lost")
        query = msgspec.json.encode(where(os="linux"))
        assert text(curl("GET", linux.path, query)[1])["branch_name"] == "new_feature_72"
