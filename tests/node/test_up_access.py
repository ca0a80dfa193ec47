"""Access to ``headrace up`` as a process: tokens from the command line, sockets, foreign pages."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from node_process import PATIENCE, Up, command, up

import headrace
from faults.polling import until
from headrace.errors import InvalidUrl

PUSH = {"calls": [{"queue": "mail", "documents": [{"payload": "1"}]}]}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'flow.db'}"


def cli(*args: str, folder: Path | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(
        command(*args), capture_output=True, text=True, timeout=PATIENCE, check=True, cwd=folder
    )
    return done.stdout.strip()


def failing(*args: str, folder: Path | None = None) -> str:
    """What a command that fails says."""
    done = subprocess.run(
        command(*args), capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder
    )
    assert done.returncode
    return done.stderr


def call(node: Up, operation: str, arguments: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """Run an operation; the status and the document of its answer."""
    connection = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=PATIENCE)
    try:
        headers = {"content-type": "application/json", **headers}
        path = f"/api/v1/operations/{operation}"
        connection.request("POST", path, json.dumps(arguments), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_token_from_the_command_line(durable_url: str) -> None:
    """It allows what its scopes say, from its creation to its revocation."""
    url = durable_url
    with up(url) as node:
        text = cli("--url", url, "token", "create", "mailer", "--scope", "push:queue/mail")
        login = {"authorization": f"Bearer {text}"}
        assert call(node, "queues.push", PUSH)[0] == 401
        assert call(node, "queues.push", PUSH, **login)[0] == 200
        status, problem = call(node, "queues.info", {"name": "mail"}, **login)
        assert (status, problem["code"]) == (403, "not_allowed")
        assert "read:queue/mail" in problem["detail"]
        assert node.get("/metrics", text)[0] == 403
        assert node.get("/ready")[0] == 200
        cli("--url", url, "token", "revoke", text.split("_")[1], "--yes")
        until(lambda: call(node, "queues.push", PUSH, **login)[0] == 401, "the token is refused")


def test_what_was_managed_is_in_the_audit_topic(url: str) -> None:
    """Before the node has stopped."""
    with up(url) as node:
        assert node.token is not None
        login = {"authorization": f"Bearer {node.token}"}
        call(node, "queues.push", PUSH, **login)
        assert call(node, "queues.pause", {"name": "mail", "by": None}, **login)[0] == 200
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
    with headrace.connect(url) as hr:
        [record] = hr.range("_audit")
        assert (record.body["token"], record.body["operation"]) == ("local", "queues.pause")
        assert hr.topic("_audit").info().max_age is not None


def test_pages_of_other_sites_are_refused(url: str) -> None:
    """Also by a node that needs no token."""
    with up(url, "--open") as node:
        assert call(node, "queues.push", PUSH)[0] == 200
        assert call(node, "queues.push", PUSH, host="evil.example")[0] == 421
        assert call(node, "queues.push", PUSH, origin="http://evil.example")[0] == 403


def test_a_connection_that_was_reset_is_nobody(url: str, tmp_path: Path) -> None:
    """It has no address, as a client of a Unix socket has none, and gets no rights by that."""
    with up(url) as node:
        host, _, port = node.url.removeprefix("http://").partition(":")
        body = json.dumps(PUSH).encode()
        request = (
            b"POST /api/v1/operations/queues.push HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        for _ in range(50):
            with socket.create_connection((host, int(port)), PATIENCE) as connection:
                # Closing sends a reset.
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.sendall(request)
        assert node.get("/ready")[0] == 200
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(PATIENCE) == 0
    with headrace.connect(url) as hr:
        assert hr.queues.list() == []


def test_a_unix_socket_is_the_nodes_user(url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sockets" / "node.sock")
    with up(url, "--socket", path) as node, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        client.sendall(b"GET /api/v1/node HTTP/1.1\r\nhost: anything\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        assert node.token is None


def test_a_path_in_the_url_is_refused_with_the_right_one(url: str) -> None:
    with up(url, "--open") as node:
        with pytest.raises(InvalidUrl, match=rf"without a path, as in {node.url}\."):
            headrace.connect(f"{node.url}/foo")
        with headrace.connect(f"{node.url}/") as hr:
            assert hr.push("mail", 1).pushed == 1


def test_commands_find_the_node_of_their_user(url: str, tmp_path: Path) -> None:
    """Without --url, HEADRACE_URL or a settings file, and with its token."""
    with up(url, folder=tmp_path) as node:
        assert cli("push", "mail", "1", folder=tmp_path) == "1"
        assert json.loads(cli("config", "show", "--json", folder=tmp_path))["url"] == {
            "value": node.url,
            "origin": "the running node",
        }
        other = f"sqlite:///{tmp_path / 'other.db'}"
        assert cli("--url", other, "push", "mail", "1", folder=tmp_path) == "1"
        with headrace.connect(url) as hr:
            assert len(hr.queue("mail").items()) == 1
    assert "no store is configured" in failing("queue", "ls", folder=tmp_path)


def test_doctor_warns_of_an_open_node(url: str, tmp_path: Path) -> None:
    for options, verdict in ((["--open"], "warn"), ([], "ok")):
        with up(url, *options) as node:
            findings = json.loads(cli("doctor", "--json", folder=tmp_path))["findings"]
            [found] = [finding for finding in findings if finding["check"] == "node"]
            assert (found["verdict"], found["facts"]["url"]) == (verdict, node.url)


def test_local_programs_need_no_certificates(certificates: Path, tmp_path: Path) -> None:
    """Neither commands nor the workers of a store in memory, which are clients of the node."""
    (tmp_path / "shop.py").write_text(APP)
    tls = ("--tls-cert", f"{certificates}/node.pem", "--tls-key", f"{certificates}/node.key")
    with up("memory://", *tls, "--worker", "shop:app", folder=tmp_path) as node:
        assert node.url.startswith("https://")
        os.mkfifo(tmp_path / "pipe")
        task = {"task": "send", "args": [str(tmp_path / "pipe")], "kwargs": {}}
        cli("push", "mail", json.dumps(task), folder=tmp_path)
        assert (tmp_path / "pipe").read_text() == "sent"


APP = """
import headrace

app = headrace.App()

@app.task(queue="mail")
def send(pipe):
    with open(pipe, "w") as file:
        file.write("sent")
"""
