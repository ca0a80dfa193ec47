"""The worked example of Willow's document runs, and every line of its table holds."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import headrace
from headrace import where
from headrace.model.query.key_values import KeyValues

ROOT = Path(__file__).resolve().parents[2]

# Each is asked for in turn, on an empty farm: branch, system, and whether it may run.
ATTEMPTS = [
    ("main", "windows", True),
    ("main", "windows", True),
    ("main", "mac", True),
    ("main", "linux", True),
    ("f72", "windows", False),
    ("f72", "mac", False),
    ("f72", "linux", True),
    ("f72", "linux", False),
    ("f73", "linux", True),
    ("main", "bsd", False),
    ("f99", None, True),
    ("f99", None, False),
    (None, "linux", True),
    (None, "mac", False),
]


@pytest.fixture
def builds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("builds", ROOT / "examples" / "builds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_tells_its_story(builds: ModuleType, store_url: str) -> None:
    """On every store alike."""
    with headrace.connect(store_url) as hr:
        lines = [re.sub(r" \(\S+\)$", "", line) for line in builds.story(hr)]
    assert lines == [
        "linux builds c1, c3",
        "windows builds c2",
        "c5 takes the place of c4: True",
        "linux finds nothing",
        (
            "c5 waits: the limit 'one-per-branch' allows 1 of branch=new_feature_72 repo=willow, "
            "and 1 are running: item 1 of queue 'git-commits'"
        ),
        "windows finds nothing",
        "c6 waits: the limit 'systems' allows nothing of os=windows",
        "windows builds c7 of main beside c2",
        "c1 is done, and linux builds c5",
    ]


def test_it_prints(builds: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    builds.main()
    assert capsys.readouterr().out.startswith("linux builds c1, c3\n")


def test_every_line_of_the_table(builds: ModuleType, store_url: str) -> None:
    """Rules and overrides together: which builds may run beside running ones."""
    with headrace.connect(store_url) as hr:
        commits = builds.set_up(hr)
        for number, (branch, system, may_run) in enumerate(ATTEMPTS):
            given = {"repo": "willow", "branch": branch, "os": system, "n": number}
            # A counter of its own: what was refused before does not stand in line for it.
            channel = {key: value for key, value in given.items() if value is not None}
            if branch is None:
                del channel["repo"]
            commits.push(number, channel=channel)
            found = commits.claim(select=where(n=number))
            assert bool(found) is may_run, KeyValues.of(channel).plain
