"""Clients of a node with narrow tokens: they can do exactly their work, and learn what is missing."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from node_process import PATIENCE, command, up

import headrace
from faults.polling import until
from headrace.errors import NotAllowed, NotAuthenticated

Connect = Callable[..., headrace.Headrace]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'flow.db'}"


@pytest.fixture
def owner(url: str) -> Iterator[headrace.Headrace]:
    """A client of the store itself."""
    with headrace.connect(url) as hr:
        yield hr


@pytest.fixture
def connect(url: str, owner: headrace.Headrace) -> Iterator[Connect]:
    """Connect to the node with a token that has these scopes."""
    with up(url) as node:
        clients = []

        def open_client(*scopes: str) -> headrace.Headrace:
            text = owner.tokens.create("test", scopes).text
            clients.append(headrace.connect(node.url.replace("://", f"://:{text}@")))
            return clients[-1]

        yield open_client
        for client in clients:
            client.close()


def test_a_worker_needs_work_on_its_queue(connect: Connect, owner: headrace.Headrace) -> None:
    """Nothing that it does beside handling items is refused: heartbeats, maintenance, waiting."""
    hr = connect("work:queue/mail")
    handled = threading.Semaphore(0)
    troubles: list[Any] = []
    worker = hr.start_worker("mail", lambda item: handled.release())
    worker.on("error", troubles.append)
    with worker:
        for n in range(3):
            owner.push("mail", {"n": n})
            assert handled.acquire(timeout=PATIENCE)
    assert troubles == []
    assert hr.admin.maintain().is_skipped
    with pytest.raises(NotAllowed):
        hr.admin.maintain(force=True)
    with pytest.raises(NotAllowed) as caught:
        hr.push("mail", 1)
    assert caught.value.scope == "push:queue/mail"
    assert "--scope 'push:queue/mail'" in str(caught.value)


@pytest.mark.parametrize("scope", ["push:queue/mail", "work:queue/other", "manage:queue/mail"])
def test_a_worker_without_its_scope_ends(connect: Connect, scope: str) -> None:
    """It says which scope is missing, and does not repeat calls that will be refused."""
    worker = connect(scope).start_worker("mail", print)
    assert worker.join(PATIENCE)
    assert worker.status == "stopped"
    assert isinstance(worker.error, NotAllowed)
    assert worker.error.scope == "work:queue/mail"


def test_a_refused_worker_does_not_end_another(connect: Connect, owner: headrace.Headrace) -> None:
    hr = connect("work:queue/mail", "manage:queue/*")
    handled = threading.Event()
    refused = hr.start_worker("other", print)
    with hr.start_worker("mail", lambda item: handled.set()) as worker:
        assert refused.join(PATIENCE)
        owner.push("mail", 1)
        assert handled.wait(PATIENCE)
        assert worker.error is None


def test_a_worker_that_has_claimed_waits_for_its_scope(
    connect: Connect, owner: headrace.Headrace
) -> None:
    """A token may be replaced while it runs."""
    hr = connect("work:queue/mail")
    handled, refused = threading.Event(), threading.Event()
    with hr.start_worker("mail", lambda item: handled.set()) as worker:
        worker.on("error", lambda trouble: refused.set())
        owner.push("mail", 1)
        assert handled.wait(PATIENCE)
        [token] = [token for token in owner.tokens.list() if token.name == "test"]
        owner.tokens.revoke(token.id)
        assert refused.wait(2 * PATIENCE)
        assert worker.status == "running"
        assert worker.error is None


def test_the_command_ends_with_the_refusal(
    url: str, owner: headrace.Headrace, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "import headrace\napp = headrace.App()\n"
        "@app.task(queue='mail')\ndef send(): ...\n"
        "@app.task(queue='other')\ndef call(): ...\n"
    )
    text = owner.tokens.create("test", ["work:queue/mail"]).text
    with up(url) as node:
        answer = subprocess.run(
            command("worker", "shop:app", "--url", node.url.replace("://", f"://:{text}@")),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
    assert answer.returncode == 1, answer
    assert "--scope 'work:queue/other'" in answer.stderr


def test_outcomes_need_scopes_for_what_they_write(
    connect: Connect, owner: headrace.Headrace
) -> None:
    """The refused outcome changes nothing: the item can still be settled."""
    owner.push("mail", 1)
    hr = connect("work:queue/mail", "commit:topic/sent")
    [item] = hr.queue("mail").claim()
    with pytest.raises(NotAllowed) as caught:
        item.complete(then=headrace.Push("other", 1))
    assert caught.value.scope == "push:queue/other"
    item.complete(then=headrace.Commit("sent", {"n": 1}))
    assert owner.topic("sent").length() == 1
    assert [queue.name for queue in owner.queues.list()] == ["mail"]


def test_a_reader_follows_a_topic(connect: Connect, owner: headrace.Headrace) -> None:
    hr = connect("read:topic/orders", "work:proc/liveproc-*")
    owner.commit("orders", {"n": 1})
    with hr.live("orders") as live:
        record = next(iter(live))
    assert record.body == {"n": 1}
    with pytest.raises(NotAllowed):
        hr.range("other")


def test_locks_need_their_scope(connect: Connect) -> None:
    with connect("work:lock/*").lock({"site": "shop"}, wait=PATIENCE) as lock:
        assert lock.held
    with pytest.raises(NotAllowed):
        connect("work:counter/*").lock({"site": "shop"}).acquire()


def refusal(hr: headrace.Headrace) -> NotAuthenticated | None:
    try:
        hr.push("mail", 1)
    except NotAuthenticated as error:
        return error
    return None


def test_a_revoked_token_ends_its_clients(connect: Connect, owner: headrace.Headrace) -> None:
    """Without its text in any error."""
    hr = connect("push:queue/mail")
    hr.push("mail", 1)
    [info] = owner.tokens.list()
    owner.tokens.revoke(info.id)
    error = until(lambda: refusal(hr), "the token is refused")
    assert "hrt_" not in f"{error!r} {error.details}"


def test_the_command_line_names_the_scope(
    url: str, owner: headrace.Headrace, connect: Connect
) -> None:
    text = owner.tokens.create("test", ["push:queue/mail"]).text
    connect("admin").push("mail", 1)
    with up(url, "--namespace", "other") as node:
        address = node.url.replace("://", f"://:{text}@")
        done = subprocess.run(
            command("--url", address, "push", "other", "1"),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode != 0
    assert "push:queue/other" in done.stderr
    assert text not in done.stderr
    assert "Traceback" not in done.stderr
