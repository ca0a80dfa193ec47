"""``headrace pipeline`` as people and programs call it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import headrace
from headrace.cli.app import app

JOBS = """
import sys
from headrace.worker import App

app = App()
empty = App()
number = 5

@app.pipeline(source="in", to="mid")
def one(body):
    return {"n": body["n"] + 1}

@app.pipeline(source="mid", to="out", max_reclaims=2)
def two(body):
    if body["n"] == 7:
        raise ValueError("seven")
    return {"n": body["n"] * 10}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    return tmp_path


def arguments(folder: Path, *args: str) -> dict[str, Any]:
    source = str(Path(headrace.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {
        "args": [sys.executable, "-m", "headrace", *args],
        "cwd": folder,
        "env": {**kept, "PYTHONPATH": source, "HEADRACE_URL": f"sqlite:///{folder}/flow.db"},
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }


def call(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**arguments(folder, *args), timeout=120, check=False)


def ask(folder: Path, *args: str) -> Result:
    """What needs no process of its own."""
    url = f"sqlite:///{folder}/flow.db"
    return CliRunner().invoke(app, ["pipeline", *args, "--url", url], prog_name="headrace")


def fill(folder: Path, *numbers: int) -> None:
    with headrace.connect(f"sqlite:///{folder}/flow.db") as hr:
        hr.commit_many("in", [{"n": n} for n in numbers])


def results(folder: Path) -> list[int]:
    with headrace.connect(f"sqlite:///{folder}/flow.db") as hr:
        return [record.body["n"] for record in hr.range("out")]


def test_an_app_is_stored_run_and_looked_at(folder: Path) -> None:
    fill(folder, 1, 2, 3)
    done = call(folder, "pipeline", "run", "jobs:app", "--engine", "inline", "--once")
    assert done.returncode == 0, done.stderr
    assert "records" in done.stderr
    assert results(folder) == [20, 30, 40]
    found = json.loads(ask(folder, "ls", "--json").stdout)
    assert [(info["name"], info["processor"]) for info in found] == [
        ("one", "jobs:one"),
        ("two", "jobs:two"),
    ]
    assert "jobs:one" in ask(folder, "ls").stdout
    shown = json.loads(ask(folder, "show", "two", "--json").stdout)
    assert (shown["sources"], shown["lag"]["records"]) == (["mid"], 0)
    assert "LAST ERROR" in ask(folder, "show", "two").stdout
    assert ask(folder, "pause", "two").exit_code == 0
    again = ask(folder, "pause", "two")
    assert (again.exit_code, "disabled already" in again.stderr) == (1, True)
    assert ask(folder, "resume", "two").exit_code == 0
    assert ask(folder, "reset", "two", "--from", ":1").exit_code == 2
    moved = ask(folder, "reset", "two", "--from", ":1", "--yes", "--json")
    assert json.loads(moved.stdout)["procs"][0]["position"] == 2
    lag = json.loads(ask(folder, "lag", "two", "--json").stdout)
    assert (lag["records"], lag["status"]) == (1, "active")
    assert "two" in ask(folder, "lag").stdout
    # Stored by name: whoever has the module can run them, without the app.
    done = call(folder, "pipeline", "run", "--engine", "inline", "--once", "--json")
    assert {json.loads(line)["pipeline"] for line in done.stdout.splitlines()} == {"one", "two"}
    assert results(folder) == [20, 30, 40, 40]
    assert ask(folder, "destroy", "two", "--yes").exit_code == 0
    gone = ask(folder, "show", "two")
    assert (gone.exit_code, "no pipeline 'two'" in gone.stderr) == (3, True)
    assert ask(folder, "reset", "two", "--yes").exit_code == 3


def test_nothing_to_run_is_said(folder: Path) -> None:
    with headrace.connect(f"sqlite:///{folder}/flow.db") as hr:
        hr.system_proc("here", source="in", processor=lambda body: body)
    done = ask(folder, "run", "--once", "--engine", "inline")
    assert (done.exit_code, "no pipelines that are stored by name" in done.stderr) == (0, True)


def test_a_signal_ends_it_in_order(folder: Path) -> None:
    fill(folder, 1)
    process = subprocess.Popen(
        **arguments(
            *(folder, "pipeline", "run", "jobs:app", "--engine", "inline"),
            *("--json", "--every", "0.1"),
        )
    )
    try:
        moved: dict[str, Any] = {}
        while moved.get("two") != 1:
            report = json.loads(process.stdout.readline())
            moved[report["pipeline"]] = report["moved"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert "stopping: claims under way are seen through" in err
    assert [json.loads(line)["lag"] for line in out.splitlines()][-2:] == [0, 0]
    assert results(folder) == [20]


def test_what_fails_for_good_ends_with_its_error(folder: Path) -> None:
    fill(folder, 5, 6, 7)
    done = call(folder, "pipeline", "run", "jobs:app", "--engine", "inline", "--once")
    assert done.returncode == 1
    assert "proc 'two' is disabled" in done.stderr
    assert "ValueError: seven" in done.stderr
    assert results(folder) == [60]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere:app"], "no module 'nowhere'"),
        (["jobs:number"], "jobs:number is int: name an App"),
        (["jobs:empty"], "has no pipelines"),
        (["jobs:app", "--engine", "magic"], "--engine"),
        (["jobs:app", "--engine", "inline", "--master", "local[1]"], "inline engine has no master"),
        (["jobs:app", "--master", "sparkle://x"], "does not know the master 'sparkle://x'"),
    ],
    ids=repr,
)
def test_a_wrong_word_is_told_in_a_line(folder: Path, args: list[str], words: str) -> None:
    done = call(folder, "pipeline", "run", *args)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
