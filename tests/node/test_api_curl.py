"""The API with curl: the page about it as it is written, and what curl may be told to send."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.contract.tokens import NewToken
from headrace.model.access_tokens import new_token
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.shutdown import Closing
from headrace.node.token_guard import TokenGuard
from headrace.stores import open_store
from served_node import ServedNode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http.md"
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Curl:
    """Runs shell commands that use curl, and curl itself."""

    def __init__(self, port: int, token: str) -> None:
        assert shutil.which("curl"), "curl is missing: run scripts/ensure-curl"
        self._api = f"http://127.0.0.1:{port}/api/v1"
        self._token = token

    def command(self, path: str, *options: str) -> list[str]:
        """What runs curl."""
        token = f"Authorization: Bearer {self._token}"
        return ["curl", "-sS", "-H", token, *options, f"{self._api}{path}"]

    def run(self, script: str) -> list[Any]:
        """The JSON documents that a script prints, one after the other."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            env={**os.environ, "API": self._api, "TOKEN": self._token},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return list(_documents(done.stdout))

    def send(self, method: str, path: str, *options: str, body: str | bytes = b"") -> Any:
        """The status and the answer of one request."""
        content = body if isinstance(body, bytes) else body.encode()
        sends = ["--data-binary", "@-"] if content else []
        done = subprocess.run(
            self.command(path, "-X", method, *sends, *options, "-w", "\n%{http_code}"),
            input=content,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        text, _, status = done.stdout.decode().rpartition("\n")
        return int(status), json.loads(text) if text else None


def _documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        found, end = decoder.raw_decode(text)
        text = text[end:]
        yield found


@pytest.fixture
def curl(served: ServedNode, memory_url: str) -> Iterator[Curl]:
    """With a token, as over any network."""
    token = new_token()
    store = open_store(memory_url)
    try:
        new = NewToken(id=token.id, hash=token.hash, name="curl", scopes=("admin",))
        store.run(store.tokens.create(new))
        closing = Closing()
        guard = TokenGuard(store, closing)

        async def end() -> None:
            closing.begin()
            await guard.aclose()

        with served.serving(memory_url, guard=guard):
            yield Curl(served.port, token.text)
            served.call(end())
    finally:
        store.close()


JSON = ("-H", "Content-Type: application/json")


class TestPage:
    def test_its_commands_run(self, curl: Curl, memory_url: str) -> None:
        """In their order, all of them but the start of a node."""
        scripts = [text for text in _SHELL.findall(PAGE.read_text("utf-8")) if "api" in text]
        scripts = [text for text in scripts if "headrace" not in text]
        assert len(scripts) >= 7
        answers = curl.run("\n".join(scripts))
        assert answers[0] == {"id": 1, "outcome": "pushed", "reason": None}
        assert not [answer for answer in answers if "code" in answer]
        with headrace.connect(memory_url) as hr:
            assert [record.body for record in hr.range("sent")] == [{"to": "ann"}]
            assert [item.payload for item in hr.queue("invoices").items()] == [17]
            assert sum(item.payload == {"order": 17} for item in hr.queue("mail").items()) == 1

    def test_it_has_every_path(self) -> None:
        text = PAGE.read_text("utf-8")
        for endpoint in ENDPOINTS:
            assert f"/{endpoint.path.split('/')[1]}" in text
            last = endpoint.path.rsplit("/", 1)[1]
            assert last in text, endpoint.path


class TestCurl:
    def test_names_that_have_to_be_quoted(self, curl: Curl) -> None:
        for name in ("git%20commits", "%F0%9F%93%A8", "a%252Fb", "50%25"):
            status, item = curl.send("POST", f"/queues/{name}/items", *JSON, body='{"payload": 1}')
            assert status == 201
            status, found = curl.send("GET", f"/queues/{name}/items/{item['id']}")
            assert (status, found["payload"]) == (200, 1)
        assert curl.send("GET", "/queues/a%2Fb")[0] == 400

    def test_a_form_is_refused(self, curl: Curl) -> None:
        """What curl sends with -d, unless it is told otherwise."""
        status, problem = curl.send("POST", "/queues/q/items", body='{"payload": 1}')
        assert (status, problem["code"]) == (415, "unsupported_media_type")

    def test_a_foreign_host_and_origin(self, curl: Curl) -> None:
        for option, status in (("Host: evil.example", 421), ("Origin: http://evil.example", 403)):
            assert curl.send("GET", "/queues", "-H", option)[0] == status

    def test_a_body_that_expects_to_be_asked_for(self, curl: Curl) -> None:
        """curl waits for 100 Continue before it sends a long body."""
        body = json.dumps({"payload": "x" * 1_000_000})
        expect = ("-H", "Expect: 100-continue")
        assert curl.send("POST", "/queues/q/items", *JSON, *expect, body=body)[0] == 201

    def test_a_chunked_body(self, curl: Curl) -> None:
        chunked = ("-H", "Transfer-Encoding: chunked")
        body = '{"payload": 1}'
        assert curl.send("POST", "/queues/q/items", *JSON, *chunked, body=body)[0] == 201

    def test_a_body_that_is_too_long(self, curl: Curl) -> None:
        status, problem = curl.send("POST", "/queues/q/items", *JSON, body=b"x" * (9 * 2**20))
        assert (status, problem["code"]) == (413, "body_too_large")

    def test_a_claim_whose_curl_is_ended(self, curl: Curl, served: ServedNode) -> None:
        with subprocess.Popen(
            curl.command("/queues/q/claim", "-m", "0.3", *JSON, "-d", '{"wait": 30}'),
            stderr=subprocess.DEVNULL,
        ) as waiting:
            assert waiting.wait(20) == 28  # curl's own time limit
        end = time.monotonic() + 30
        while served._node.capacity._waiting and time.monotonic() < end:
            time.sleep(0.01)
        _, pushed = curl.send("POST", "/queues/q/items", *JSON, body='{"payload": 1}')
        _, item = curl.send("GET", f"/queues/q/items/{pushed['id']}")
        assert (item["state"], item["attempts"]) == ("pending", 0)
