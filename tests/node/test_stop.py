"""A node that stops with open streams, waiting claims and running requests."""

import http.client
import json
import re
import signal
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from node_process import PATIENCE, Up, up

import headrace
from faults.polling import until
from headrace.errors import HeadraceError

STREAMS = 200
CLAIMS = 40
POLLS = 300


def open_stream(url: str, token: str, word: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    headers = {"authorization": f"Bearer {token}"}
    connection.request("GET", f"/api/v1/notifications/{word}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return response


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_every_stream_and_waiting_claim_ends_with_the_node(store: str, tmp_path: Path) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'flow.db'}"
    with up(url, HEADRACE_MIGRATE="create") as node:
        token = node.token
        assert token is not None
        streams = [open_stream(node.url, token, f"topic-{n % 20}") for n in range(STREAMS)]
        outcomes: list[object] = []
        # Not for longer than the clients are given once the node has ended.
        clients = [headrace.connect(node.url, patience=5) for _ in range(CLAIMS)]
        clients[0].queues.create("mail")
        begun = threading.Barrier(CLAIMS + 1)

        def claim(hr: headrace.Headrace) -> None:
            begun.wait(PATIENCE)
            try:
                outcomes.append(hr.queue("mail").claim(wait=PATIENCE))
            except HeadraceError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=claim, args=(hr,)) for hr in clients]
        for thread in threads:
            thread.start()
        begun.wait(PATIENCE)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
        # Nothing was cut off at the end of the time for running requests.
        assert node.process.stderr is not None
        assert "exceeded" not in node.process.stderr.read()
        for stream in streams:
            stream.read()
            stream.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(outcomes) == CLAIMS
        assert all(isinstance(outcome, HeadraceError) for outcome in outcomes), outcomes
        for hr in clients:
            hr.close()


def claims_made(node: Up) -> float:
    """How many claims the store of a node has answered."""
    lines = node.get("/metrics", node.token)[1].decode().splitlines()
    is_claim = re.compile(r'headrace_operations_total\{operation="queues.claim".* (\S+)$').match
    return sum(float(found[1]) for found in map(is_claim, lines) if found)


def test_every_long_poll_is_answered_when_the_node_stops(tmp_path: Path) -> None:
    """Not only our own clients wait: each request gets a response, and none is cut off."""
    with up(f"sqlite:///{tmp_path / 'flow.db'}") as node:
        with headrace.connect(node.url) as hr:
            hr.queues.create("mail")
        headers = {"authorization": f"Bearer {node.token}", "content-type": "application/json"}
        polls = [
            http.client.HTTPConnection(urlsplit(node.url).netloc, timeout=PATIENCE)
            for _ in range(POLLS)
        ]
        for poll in polls:
            poll.request("POST", "/api/v1/queues/mail/claim", b'{"wait": 60}', headers)
        until(lambda: claims_made(node) >= POLLS, "claims that found nothing")
        node.process.send_signal(signal.SIGTERM)
        for poll in polls:
            response = poll.getresponse()
            problem = json.loads(response.read())
            assert (response.status, problem["code"]) == (503, "store_unavailable"), problem
            assert response.getheader("retry-after") is not None
            poll.close()
        assert node.process.wait(PATIENCE) == 0


def test_what_was_acknowledged_before_a_stop_is_stored(tmp_path: Path) -> None:
    """Clients push until the node stops: each push that was answered is in the store."""
    url = f"sqlite:///{tmp_path / 'flow.db'}"
    pushed: list[int] = []
    in_doubt: list[int] = []

    with up(url) as node:
        enough = threading.Event()

        def push() -> None:
            with headrace.connect(node.url, patience=5) as hr:
                while True:
                    try:
                        pushed.append(hr.push("mail", {"n": 1}).pushed)
                    except headrace.errors.OutcomeUnknown:
                        in_doubt.append(1)
                        return
                    except HeadraceError:
                        return
                    if len(pushed) > 100:
                        enough.set()

        threads = [threading.Thread(target=push) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
        for thread in threads:
            thread.join(PATIENCE)
    with headrace.connect(url) as hr:
        [stats] = hr.queues.stats(exact=True)
        assert len(pushed) <= stats.pending <= len(pushed) + len(in_doubt)
