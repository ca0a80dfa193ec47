"""``headrace pipeline`` as people and programs call it."""

import json
import os
import re
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

slow = App()

@slow.pipeline(source="in", to="own", max_attempts=1, timeout=9)
def given(body):
    return body

@slow.pipeline(source="in", max_attempts=1)
def endless(body):
    while True:
        pass

sick = App()

@sick.pipeline(source="in", to="out", max_attempts=1, on_exhausted="dead_letter")
def odd(body):
    if body["n"] % 2 == 0:
        raise ValueError("even")
    return body

@app.pipeline(source="mid", to="out", max_attempts=2)
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


def test_an_app_is_stored_run_and_inspected(folder: Path) -> None:
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
    assert ask(folder, "seek", "two", ":1").exit_code == 2
    moved = ask(folder, "seek", "two", ":1", "--yes", "--json")
    assert json.loads(moved.stdout)["procs"][0]["position"] == 2
    lag = json.loads(ask(folder, "lag", "two", "--json").stdout)
    assert (lag["records"], lag["status"]) == (1, "active")
    assert "two" in ask(folder, "lag").stdout
    # Stored by name: any process that has the module, and trusts it, can run them without the app.
    done = call(
        folder, "pipeline", "run", "--allow", "jobs", "--engine", "inline", "--once", "--json"
    )
    assert {json.loads(line)["pipeline"] for line in done.stdout.splitlines()} == {"one", "two"}
    assert results(folder) == [20, 30, 40, 40]
    assert ask(folder, "delete", "two", "--yes").exit_code == 0
    gone = ask(folder, "show", "two")
    assert (gone.exit_code, "no pipeline 'two'" in gone.stderr) == (3, True)
    assert ask(folder, "seek", "two", ">", "--yes").exit_code == 3


def test_no_pipelines_to_run_are_reported(folder: Path) -> None:
    with headrace.connect(f"sqlite:///{folder}/flow.db") as hr:
        hr.pipelines.create("here", source="in", processor=lambda body: body)
    done = ask(folder, "run", "--allow", "jobs", "--once", "--engine", "inline")
    assert (done.exit_code, "no stored pipelines that may run" in done.stderr) == (0, True)


def test_a_time_limit_for_all_pipelines_of_a_run(folder: Path) -> None:
    fill(folder, 1)
    done = call(
        *(folder, "pipeline", "run", "jobs:slow", "--engine", "inline", "--once"),
        *("--timeout", "0.2"),
    )
    assert (done.returncode, "longer than timeout=0.2 s" in done.stderr) == (1, True)
    assert "9 s" in ask(folder, "show", "given").stdout
    assert json.loads(ask(folder, "show", "endless", "--json").stdout)["timeout"] is None


def test_a_function_that_only_the_database_names_is_not_run(folder: Path) -> None:
    """Those of trusted modules are run, and each of the others is named."""
    with headrace.connect(f"sqlite:///{folder}/flow.db") as hr:
        hr.commit("commands", ["touch", f"{folder}/was-run"])
        hr.commit("in", {"n": 1})
        hr.pipelines.create("attack", source="commands", processor="subprocess:call")
        hr.pipelines.create("one", source="in", to="out", processor="jobs:one")
        hr.pipelines.create("through", source="commands", processor="jobs:sys.exit")
    done = call(folder, "pipeline", "run", "--engine", "inline", "--once")
    assert not (folder / "was-run").exists()
    assert (done.returncode, "--allow" in done.stderr) == (2, True)
    done = call(folder, "pipeline", "run", "--allow", "jobs", "--engine", "inline", "--once")
    assert not (folder / "was-run").exists()
    assert "'attack' is not run: its processor subprocess:call" in done.stderr
    assert "'jobs:sys.exit' of pipeline 'through' is a function of sys" in done.stderr
    assert (done.returncode, results(folder)) == (2, [2])


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
    assert "stopping after the current claims" in err
    assert [json.loads(line)["lag"] for line in out.splitlines()][-2:] == [0, 0]
    assert results(folder) == [20]


def test_what_fails_for_good_ends_with_its_error(folder: Path) -> None:
    fill(folder, 5, 6, 7)
    done = call(folder, "pipeline", "run", "jobs:app", "--engine", "inline", "--once")
    assert done.returncode == 1
    assert "proc 'two' is disabled" in done.stderr
    assert "ValueError: seven" in done.stderr
    assert results(folder) == [60]


def test_dead_letters_are_mentioned(folder: Path) -> None:
    fill(folder, 1, 2, 3, 4)
    run = ("pipeline", "run", "jobs:sick", "--engine", "inline", "--once")
    done = call(folder, *run)
    assert (done.returncode, results(folder)) == (0, [1, 3])
    assert done.stderr.splitlines()[-1] == "odd: 2 dead letters; see `headrace pipeline show odd`"
    assert re.search(r"dead letters +2 in topic odd-dead\n", ask(folder, "show", "odd").stdout)
    assert json.loads(ask(folder, "show", "odd", "--json").stdout)["dead_letters"] == {
        "odd-dead": 2
    }
    done = call(folder, *run)
    assert "dead letter" not in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere:app"], "no module 'nowhere'"),
        ([], "name an app"),
        (["--allow", "*"], "allow has '*'"),
        (["jobs:number"], "jobs:number is int: name an App"),
        (["jobs:empty"], "has no pipelines"),
        (["jobs:app", "--engine", "magic"], "--engine"),
        (["jobs:app", "--engine", "inline", "--master", "local[1]"], "inline engine has no master"),
        (["jobs:app", "--master", "sparkle://x"], "does not know the master 'sparkle://x'"),
    ],
    ids=repr,
)
def test_wrong_usage_is_one_line(folder: Path, args: list[str], words: str) -> None:
    done = call(folder, "pipeline", "run", *args)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
