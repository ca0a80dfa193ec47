"""``headrace worker`` as a process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace

# The store in memory lives in the worker's own process: what is to be done is pushed there.
JOBS = """
import threading, time
import headrace
from headrace.worker import App

URL = "memory://jobs"
store = headrace.connect(URL)
app = App(URL)

@app.task(queue="mail")
def send(n):
    print("sent", n, flush=True)

@app.task(queue="slow")
def slow(n):
    print("begun", n, flush=True)
    go.wait(n)
    print("ended", n, flush=True)

@app.task(queue="slow")
async def aslow(n):
    slow(n)

go = threading.Event()
empty = App()
number = 5

def handle(item):
    print("handled", item.payload, flush=True)

def fill():
    app.bind(store)
    send.push(1)
    send.push(2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "mail.py").write_text("from jobs import *\nfill()\n")
    (tmp_path / "stuck.py").write_text(
        "from jobs import *\napp.bind(store)\nslow.push(60)\nslow.push(61)\n"
    )
    (tmp_path / "quick.py").write_text("from jobs import *\napp.bind(store)\nslow.push(0.1)\n")
    (tmp_path / "broken.py").write_text("import nowhere_at_all\n")
    (tmp_path / "raising.py").write_text("raise ValueError('half past nine')\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    return tmp_path


def environment() -> dict[str, str]:
    source = str(Path(headrace.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {**kept, "PYTHONPATH": source}


@contextlib.contextmanager
def working(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "headrace", "worker", *args],
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(stream: Any) -> str:
    """The next line, without its end."""
    return str(stream.readline()).rstrip("\n")


def test_an_app_works_until_it_is_told_to_stop(folder: Path) -> None:
    """The app's own queues and its own store; exit code 0."""
    with working(folder, "mail:app") as process:
        assert [line(process.stdout), line(process.stdout)] == ["sent 1", "sent 2"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    lines = err.splitlines()
    assert lines[:2] == ["mail: running", "slow: running"]
    assert lines[2].startswith("stopping: handlers that run get 30 s")
    assert sorted(lines[3:]) == [
        "mail: stopped",
        "mail: stopping",
        "slow: stopped",
        "slow: stopping",
    ]


def test_states_as_json(folder: Path) -> None:
    with working(folder, "jobs:app", "-q", "mail:10", "--json", "--url", "memory://x") as process:
        assert json.loads(line(process.stdout)) == {"queue": "mail", "status": "running"}
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert [json.loads(row)["status"] for row in out.splitlines()] == ["stopping", "stopped"]


def test_a_handler_for_one_queue(folder: Path) -> None:
    with working(folder, "mail:handle", "-q", "mail", "-u", "memory://jobs") as process:
        assert line(process.stdout).startswith("handled {'task': 'send'")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_running_handlers_get_time_to_end(folder: Path) -> None:
    with working(folder, "quick:app", "-q", "slow") as process:
        assert line(process.stdout) == "begun 0.1"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "ended 0.1\n")


@pytest.mark.parametrize("how", ["signals", "grace"])
def test_handlers_that_do_not_end_are_left(folder: Path, how: str) -> None:
    """After a second signal, or when the grace is over."""
    grace = ("--grace", "0.1") if how == "grace" else ()
    with working(folder, "stuck:app", "-q", "slow:2", *grace) as process:
        assert line(process.stdout).startswith("begun")
        process.send_signal(signal.SIGTERM)
        if how == "signals":
            while not line(process.stderr).startswith("stopping:"):
                pass
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing:app"], "there is no module 'nothing' here"),
        (["jobs.deeper:app"], "'jobs.deeper'"),
        (["jobs:nothing"], "module 'jobs' has no 'nothing'"),
        (["jobs"], "module:name"),
        (["broken:app"], "module 'broken' cannot be imported: ModuleNotFoundError"),
        (["raising:app"], "ValueError: half past nine"),
        (["leaving:app"], "SystemExit: 3"),
        (["jobs:number", "-q", "mail"], "jobs:number is int"),
        (["jobs:handle"], "give it one --queue"),
        (["jobs:handle", "-q", "a", "-q", "b"], "give it one --queue"),
        (["jobs:empty"], "has no tasks"),
        (["jobs:app", "-q", "no good"], "cannot name a queue"),
        (["jobs:app", "-q", "mail:0"], "whole number from 1 on"),
        (["jobs:app", "-q", "mail:many"], "whole number from 1 on"),
        (["jobs:app", "-q", "mail", "-q", "mail:2"], "given twice"),
        (["jobs:handle", "-q", "mail"], "url"),
        (["jobs:app", "--grace", "-1"], "grace"),
        ([], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_is_one_line(folder: Path, args: list[str], words: str) -> None:
    with working(folder, *args) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_debug_shows_where_the_import_failed(folder: Path) -> None:
    with working(folder, "raising:app", "--debug") as process:
        _, err = process.communicate(timeout=30)
    assert 'raising.py", line 1' in err


def test_a_store_that_is_away(folder: Path) -> None:
    with working(folder, "jobs:app", "-u", "sqlite:////no/such/folder/x.db") as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 4
    assert "does not exist" in err
