"""Commands through a node that other tests call on a store only."""

import os
import sys
from pathlib import Path

import pytest
from run_cli import Cli, on, run

import headrace

JOBS = """
from headrace.worker import App

app = App()

def handle(item):
    print("handled", item.payload)

@app.pipeline(source="in", to="out")
def double(body):
    return {"n": body["n"] * 2}
"""


@pytest.fixture
def cli(bare: Cli, node_url: str) -> Cli:
    """Call ``headrace`` on a node."""
    return on(bare, node_url)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the present folder, for processes that are started there."""
    Path("jobs.py").write_text(JOBS)
    source = str(Path(headrace.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, *filter(None, sys.path)]))


def test_the_environment_names_the_node(
    bare: Cli, node_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_URL", node_url)
    assert bare("push", "mail", "1").code == 0
    [found] = bare("item", "ls", "mail", "--json").json_lines
    assert (found["payload"], found["state"]) == (1, "pending")


def test_queues_are_listed_shown_and_set(cli: Cli) -> None:
    cli("push", "mail", "1")
    [listed] = cli("queue", "ls", "--json").json
    assert (listed["name"], listed["settings"]["max_attempts"]) == ("mail", 5)
    assert cli("queue", "set", "mail", "max_attempts=3").code == 0
    assert cli("queue", "show", "mail", "--json").json["settings"]["max_attempts"] == 3
    assert "mail" in cli("queue", "ls").out


def test_dead_items_are_listed_and_redriven(cli: Cli, node_url: str) -> None:
    with headrace.connect(node_url) as hr:
        hr.push("mail", 1)
        hr.queue("mail").claim()[0].kill("no such user")
    [listed] = cli("dead", "ls", "mail", "--json").json_lines
    assert listed["payload"] == 1
    assert cli("dead", "redrive", "mail", "--yes", "--json").json["done"] == 1
    assert cli("item", "ls", "mail", "--json").json_lines[0]["state"] == "pending"


def test_limits_are_set_and_shown(cli: Cli, node_url: str) -> None:
    with headrace.connect(node_url) as hr:
        hr.push_many("builds", [1, 2], channel={"os": "linux"})
        assert cli("limit", "set", "os=*", "--limit", "1", "--name", "systems").code == 0
        [item] = hr.queue("builds").claim(2)
        shown = cli("limit", "show", "systems", "--json").json
    assert [holder["item"] for use in shown["usage"] for holder in use["holders"]] == [item.id]


def test_locks_are_listed_and_force_released(cli: Cli, node_url: str) -> None:
    with headrace.connect(node_url) as hr:
        lock = hr.lock({"site": "shop"}, heartbeat=False).acquire()
        [listed] = cli("lock", "ls", "--json").json_lines
        assert listed["token"] == lock.token
        assert cli("lock", "force-release", "site=shop", "--yes").code == 0
    assert cli("lock", "ls").err == "there are no locks\n"


def test_counters_are_set_and_listed(cli: Cli) -> None:
    assert cli("counter", "set", "api=maps", "--count", "2").code == 0
    [listed] = cli("counter", "ls", "--json").json_lines
    assert (listed["count"], listed["key_values"]) == (2, {"api": "maps"})


def test_doctor_diagnoses_the_store_of_the_node(cli: Cli) -> None:
    answer = cli("doctor", "--json")
    assert (answer.code, answer.json["fail"]) == (0, 0)
    assert {"durability", "schema"} <= {one["check"] for one in answer.json["findings"]}


@pytest.mark.usefixtures("jobs")
def test_a_worker_executes_items_of_the_node(cli: Cli, node_url: str) -> None:
    assert cli("push", "mail", "7").code == 0
    options = ("--queue", "mail", "--max-items", "1")
    done = run("--url", node_url, "worker", "jobs:handle", *options)
    assert (done.code, done.out) == (0, "handled 7\n"), done.err
    assert cli("item", "ls", "mail").err == "queue 'mail' has no live items\n"


@pytest.mark.usefixtures("jobs")
def test_a_pipeline_runs_inline_on_topics_of_the_node(cli: Cli, node_url: str) -> None:
    assert cli("topic", "commit", "in", '{"n": 4}').code == 0
    done = run("--url", node_url, "pipeline", "run", "jobs:app", "--engine", "inline", "--once")
    assert done.code == 0, done.err
    [record] = cli("topic", "range", "out", "--json").json_lines
    assert record["body"] == {"n": 8}
    assert [one["name"] for one in cli("pipeline", "ls", "--json").json] == ["double"]
