"""A node whose database goes away, and comes back."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

import headrace
from faults.polling import PATIENCE, until
from headrace.errors import StoreUnavailable
from headrace.testing.postgres import PrivatePostgres


def get(url: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url + path, timeout=PATIENCE) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_node_says_that_its_database_is_away_and_goes_on(fragile: PrivatePostgres) -> None:
    """At the start, and later: it is healthy and not ready, and refuses calls until then."""
    with (
        headrace.spawn(fragile.url, listen="127.0.0.1:0", patience=1, timeout=PATIENCE) as node,
        headrace.connect(node.url, patience=5) as impatient,
    ):
        node.client.push("mail", {"n": 1})
        assert get(node.url, "/ready") == (200, {"status": "ready"})
        fragile.stop()
        try:
            until(lambda: get(node.url, "/ready")[0] == 503, "a node that is not ready")
            assert "reason" in get(node.url, "/ready")[1]
            assert get(node.url, "/health") == (200, {"status": "ok"})
            with pytest.raises(StoreUnavailable):
                impatient.push("mail", {"n": 2})
        finally:
            fragile.start()
        until(lambda: get(node.url, "/ready")[0] == 200, "a ready node")
        node.client.push("mail", {"n": 3})
        assert node.client.queues.stats(exact=True)[0].pending == 2


def test_a_node_starts_while_its_database_is_away(fragile: PrivatePostgres) -> None:
    fragile.stop()
    try:
        with pytest.raises(StoreUnavailable, match="store of the node is away"):
            headrace.spawn(fragile.url, patience=0.1, timeout=10)
    finally:
        fragile.start()
    headrace.spawn(fragile.url, timeout=PATIENCE).shutdown()
