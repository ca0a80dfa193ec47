"""A stream that is killed and started again until it is through, and what must come of it."""

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


def run_through(url: str, folder: Path, faults: dict[int, str], *, count: int, batch: int) -> int:
    """Copy ``count`` records through all faults; how often the driver was killed."""
    with headrace.connect(url) as hr:
        hr.commit_many("in", [{"n": n, "text": "x" * 50} for n in range(count)])
        given = {"url": url, "folder": str(folder), "batch_size": batch}
        kills = 0
        while not start(given | {"faults": faults}, folder):
            kills += 1
            assert kills <= len(faults), (folder / "log").read_text()[-4000:]
            check_nothing_twice(hr)
        happened = {path.name for path in folder.glob("*-*[a-z] *")}
        assert happened == {f"{at}-{kind}" for at, kind in faults.items()}
        assert sorted(record.body["n"] for record in hr.iterate("out")) == list(range(count))
        check_tidied(hr)
    return kills


def start(given: dict, folder: Path) -> bool:
    """Run the query; whether it came to its end."""
    with (folder / "log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ,
            timeout=400,
            check=False,
        )
    return done.returncode == 0 and done.stdout.rstrip().endswith(b"done")


def check_nothing_twice(hr: headrace.Headrace) -> None:
    """At any time: what is there is there once."""
    if any(info.name == "out" for info in hr.topics()):
        counts = Counter(record.body["n"] for record in hr.iterate("out"))
        assert not [n for n, times in counts.items() if times > 1]


def check_tidied(hr: headrace.Headrace) -> None:
    """What dead tasks left behind is found, and nothing else goes with it."""
    store = hr._store
    before = hr.length("out")
    store.run(store.collect_stages(0))
    assert store.run(store.collect_stages(0)) == 0
    assert hr.length("out") == before == len(list(hr.iterate("out")))
