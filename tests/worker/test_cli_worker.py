"""``headrace worker`` as a process."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace

# The store in memory lives in the worker's own process: items are pushed there.
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

LOGGED = """
import logging
import headrace
from headrace.worker import App

store = headrace.connect("memory://logged")
app = App(client=store)
log = logging.getLogger("shop.jobs")

@app.task(queue="mail", max_attempts=1)
def send(to):
    log.info("to %s", to)
    if to == "bob":
        raise OSError("busy")

send.push("ann")
send.push("bob")
"""

LIFESPAN = """
from headrace.worker import App, current_resources

app, bad = App("memory://alive"), App("memory://alive")

@app.lifespan
async def resources(app):
    print("begins", flush=True)
    yield 7
    print("ends", flush=True)

@bad.lifespan
def broken(app):
    raise ConnectionError("no cache there")
    yield

@app.task(queue="mail")
def send():
    print("resources", current_resources(int), flush=True)

bad.tasks = app.tasks
send.push()
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
    (tmp_path / "logged.py").write_text(LOGGED)
    (tmp_path / "own.py").write_text(
        "import logging, sys\n"
        "logging.basicConfig(stream=sys.stdout, format='own: %(message)s', level='INFO')\n"
        "from logged import *\n"
    )
    (tmp_path / "alive.py").write_text(LIFESPAN)
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
    """The next line, without its line ending."""
    return str(stream.readline()).rstrip("\n")


def test_an_app_works_until_it_is_stopped(folder: Path) -> None:
    """On the app's own queues and its own store. The exit code is 0."""
    with working(folder, "mail:app") as process:
        assert [line(process.stdout), line(process.stdout)] == ["sent 1", "sent 2"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    lines = err.splitlines()
    assert lines[:2] == ["mail: running", "slow: running"]
    assert lines[2].startswith("stopping: running handlers have 30 s")
    assert sorted(lines[3:]) == [
        "mail: stopped",
        "mail: stopping",
        "slow: stopped",
        "slow: stopping",
    ]


@pytest.mark.parametrize("own_client", [False, True])
def test_a_worker_that_ends_is_no_longer_listed(folder: Path, own_client: bool) -> None:
    """Also if the client is the app's own, which the command does not close."""
    url = f"sqlite:///{folder}/flow.db"
    (folder / "durable.py").write_text(
        f"from headrace import App\napp = App({url!r})\napp.task(queue='mail')(print)\n"
    )
    options = () if own_client else ("--url", url)
    with headrace.connect(url) as hr, working(folder, "durable:app", *options) as process:
        assert line(process.stderr) == "mail: running"
        give_up = time.monotonic() + 30
        while not hr.admin.workers():
            assert time.monotonic() < give_up, "the worker sent no heartbeat"
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert (process.returncode, hr.admin.workers(), hr.admin.clients()) == (0, [], [])


def test_a_program_that_ends_without_close_is_no_longer_listed(folder: Path) -> None:
    url = f"sqlite:///{folder}/flow.db"
    program = (
        "import headrace, time\n"
        f"hr = headrace.connect({url!r})\n"
        "hr.start_worker('mail', print)\n"
        "while not hr.admin.workers():\n"
        "    time.sleep(0.01)\n"
    )
    command = [sys.executable, "-c", program]
    subprocess.run(command, cwd=folder, env=environment(), check=True, timeout=60)
    with headrace.connect(url) as hr:
        assert (hr.admin.workers(), hr.admin.clients()) == ([], [])


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


def test_an_app_on_a_queue_of_none_of_its_tasks(folder: Path) -> None:
    """Dead items may have been moved there."""
    (folder / "moved.py").write_text("from jobs import *\nstore.queues.create('moved')\n")
    with working(folder, "moved:app", "-q", "moved") as process:
        assert line(process.stderr) == (
            "no task of moved:app is in queue 'moved': its queues are mail, slow"
        )
        assert line(process.stderr) == "moved: running"


def test_a_handler_for_a_new_queue(folder: Path) -> None:
    with working(folder, "jobs:handle", "-q", "new", "-u", "memory://jobs") as process:
        assert line(process.stderr) == "new: there was no such queue; it is created"
        assert line(process.stderr) == "new: running"


def test_running_handlers_get_time_to_end(folder: Path) -> None:
    with working(folder, "quick:app", "-q", "slow") as process:
        assert line(process.stdout) == "begun 0.1"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "ended 0.1\n")


@pytest.mark.parametrize("how", ["signals", "grace"])
def test_handlers_that_do_not_end_are_abandoned(folder: Path, how: str) -> None:
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
        (["nothing:app"], "there is no module 'nothing' in the working directory"),
        (["jobs.deeper:app"], "'jobs.deeper'"),
        (["jobs:nothing"], "module 'jobs' has no 'nothing': did you mean 'app' or 'empty'?"),
        (["jobs:ap"], "module 'jobs' has no 'ap': did you mean 'app'?"),
        (["jobs"], "'jobs' is not of the form module:name: did you mean 'jobs:app'?"),
        (["jobs.py"], "'jobs.py' is not of the form module:name: did you mean 'jobs:app'?"),
        (["./jobs.py:send"], "did you mean 'jobs:send'?"),
        (["shop/jobs.py"], "did you mean 'shop.jobs:app'?"),
        ([":app"], "did you mean 'module:app'?"),
        (
            ["jobs:app", "-q", "mial"],
            "no task of jobs:app is in queue 'mial': its queues are mail, slow",
        ),
        (["broken:app"], "module 'broken' cannot be imported: ModuleNotFoundError"),
        (["raising:app"], "ValueError: half past nine"),
        (["leaving:app"], "SystemExit: 3"),
        (["jobs:number", "-q", "mail"], "jobs:number is of type int"),
        (["jobs:send", "-q", "mail"], "jobs:send is a task: name its app"),
        (["jobs:handle"], "give it one --queue"),
        (["jobs:handle", "-q", "a", "-q", "b"], "give it one --queue"),
        (["jobs:empty"], "has no tasks"),
        (["jobs:app", "-q", "no/good"], "cannot name a queue"),
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


def logged(folder: Path, *args: str, lines: int) -> list[str]:
    """The log of a worker on two calls, without its status."""
    found: list[str] = []
    with working(folder, *args) as process:
        while len(found) < lines:
            text = line(process.stderr)
            assert text or process.poll() is None, found
            if not text.endswith(": running"):
                found.append(text)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    return found


def test_the_users_lines_appear_with_their_task(folder: Path) -> None:
    """And Headrace's errors, with a traceback that begins at the user's frame."""
    found = logged(folder, "logged:app", lines=8)
    time_of_day = r"\d{4}-\d\d-\d\dT[\d:.]+Z"
    assert re.fullmatch(rf"{time_of_day} INFO shop\.jobs: to ann \[send 1, attempt 1\]", found[0])
    assert re.fullmatch(rf"{time_of_day} INFO shop\.jobs: to bob \[send 2, attempt 1\]", found[1])
    assert re.fullmatch(
        rf"{time_of_day} ERROR headrace\.worker: mail: send 2 failed in [\d.e-]+ ms: "
        r"OSError: busy; attempt 1 of 1, the last",
        found[2],
    )
    assert found[3] == "Traceback (most recent call last):"
    assert 'logged.py", line' in found[4]
    assert found[4].endswith("in send")
    assert "mail: send 2 is dead, claimed once: OSError: busy; see" in found[7]


def test_a_log_level_with_a_line_for_each_task(folder: Path) -> None:
    found = logged(folder, "logged:app", "--log-level", "info", lines=2)
    assert re.search(r"INFO headrace\.tasks: mail: send 1 done in [\d.e-]+ ms$", found[1])


def test_log_lines_as_json(folder: Path) -> None:
    rows = map(json.loads, logged(folder, "logged:app", "--log-format", "json", lines=4))
    ann, bob, failed, dead = rows
    assert (ann["logger"], ann["message"], ann["item"]) == ("shop.jobs", "to ann", 1)
    assert (bob["task"], bob["queue"], bob["attempt"]) == ("send", "mail", 1)
    assert (failed["level"], failed["task"], failed["action"]) == ("error", "send", "handle")
    assert failed["duration_ms"] >= 0
    assert failed["traceback"].endswith("OSError: busy")
    assert dead["action"] == "dead"


def test_an_app_that_configures_logging_itself_is_left_alone(folder: Path) -> None:
    with working(folder, "own:app", "--log-level", "debug") as process:
        assert line(process.stdout) == "own: to ann"
        note = line(process.stderr)
    assert note == "the app has configured logging itself: --log-level and --log-format are ignored"


def test_the_lifespan_of_an_app(folder: Path) -> None:
    """It ends before the process does."""
    with working(folder, "alive:app") as process:
        assert [line(process.stdout), line(process.stdout)] == ["begins", "resources 7"]
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "ends\n")


def test_a_lifespan_that_fails_ends_the_process(folder: Path) -> None:
    with working(folder, "alive:bad") as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    lines = err.splitlines()
    assert lines[0].endswith(
        "ERROR headrace.worker: the app did not start: ConnectionError: no cache there"
    )
    assert 'alive.py", line' in lines[2]
    assert lines[-1] == "ConnectionError: no cache there"
