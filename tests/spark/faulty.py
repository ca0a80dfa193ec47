"""Streams that are killed and restarted until they are done, and the checks of their result."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import headrace

PROGRAM = Path(__file__).parent / "children" / "stream.py"
KILLS = (
    "killed in a task",
    "killed before the commit",
    "killed during the commit",
    "killed after the commit",
)


def query_of(url: str, folder: Path, faults: dict[int, str], batch: int) -> dict:
    """A stream for ``children/stream.py``, with its faults and their batches."""
    folder.mkdir(exist_ok=True)
    return {"url": url, "folder": str(folder), "faults": faults, "batch": batch}


def fill(query: dict, count: int) -> None:
    with headrace.connect(query["url"]) as hr:
        hr.commit_many("in", [{"n": n, "text": "x" * 50} for n in range(count)])


def run(queries: list[dict], folder: Path) -> bool:
    """Run streams in one driver. Return whether they finished without being killed."""
    with (folder / "log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps({"queries": queries})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ,
            timeout=400,
            check=False,
        )
    return done.returncode == 0 and done.stdout.rstrip().endswith(b"done")


def check(query: dict, count: int) -> None:
    """All faults happened, and each record is stored once."""
    happened = {path.name for path in Path(query["folder"]).glob("*-*[a-z] *")}
    assert happened == {f"{at}-{kind}" for at, kind in query["faults"].items()}
    with headrace.connect(query["url"]) as hr:
        assert sorted(record.body["n"] for record in hr.iterate("out")) == list(range(count))
        check_tidied(hr)


def check_nothing_twice(query: dict) -> None:
    """At any time, no record is stored twice."""
    with headrace.connect(query["url"]) as hr:
        if any(info.name == "out" for info in hr.topics.list()):
            counts = Counter(record.body["n"] for record in hr.iterate("out"))
            assert not [n for n, times in counts.items() if times > 1]


def check_tidied(hr: headrace.Headrace) -> None:
    """Rows that dead tasks left behind are deleted, and nothing else."""
    store = hr._store
    before = hr.topic("out").length()
    store.run(store.sinks.prune_stages(0))
    assert store.run(store.sinks.prune_stages(0)) == 0
    assert hr.topic("out").length() == before == len(list(hr.iterate("out")))
