"""A standalone cluster of two workers, as the installed package brings it."""

import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from cluster import cluster

import headrace
from faults.waiting import until

JOBS = """
import os, time
from pathlib import Path
from headrace.worker import App

app = App()
here = Path(__file__).parent

@app.pipeline(source="in", to="out", reclaim_timeout=20)
def slow(body):
    (here / f"running-{os.getpid()}").touch()
    while not (here / "go").exists():
        time.sleep(0.02)
    return {"n": body["n"] * 2}
"""
RECORDS = 40


def run(folder: Path, url: str, *args: str, **more: str) -> subprocess.Popen[str]:
    """``headrace pipeline run`` as a driver of its own."""
    source = str(Path(headrace.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", "pipeline", "run", "jobs:app", "--once", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source, "HEADRACE_URL": url, **more},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    return tmp_path


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def test_an_executor_killed_on_a_cluster_costs_nothing(folder: Path, postgres_url: str) -> None:
    with headrace.connect(postgres_url) as hr, cluster(folder) as found:
        hr.commit_many("in", [{"n": n} for n in range(RECORDS)])
        driver = run(folder, postgres_url, "--master", found.master)
        try:
            [busy] = until(lambda: list(folder.glob("running-*")), "a task", 180)
            above = ancestors(int(busy.name.partition("-")[2]))
            [executor] = [pid for pid in found.executors() if pid in above]
            os.kill(executor, signal.SIGKILL)
            until(lambda: len(list(folder.glob("running-*"))) > 1, "the task elsewhere", 180)
            (folder / "go").touch()
            _, errors = driver.communicate(timeout=180)
        finally:
            driver.kill()
            driver.communicate()
        assert driver.returncode == 0, errors[-2000:]
        assert [record.body["n"] for record in hr.range("out")] == [n * 2 for n in range(RECORDS)]
        [proc] = hr.system_proc("slow").inspect().procs
        assert (proc.reclaims, proc.position) == (0, RECORDS)


def test_executors_without_the_package_are_named(folder: Path, sqlite_url: str) -> None:
    """In one line, with what to do; nothing is lost, and nothing counted against the records."""
    (folder / "go").touch()
    venv.create(folder / "bare", with_pip=False)
    with headrace.connect(sqlite_url) as hr:
        hr.commit("in", {"n": 1})
        driver = run(
            folder,
            *(sqlite_url, "--master", "local[1]"),
            PYSPARK_PYTHON=str(folder / "bare" / "bin" / "python"),
        )
        _, errors = driver.communicate(timeout=200)
        assert driver.returncode == 1
        [line] = [line for line in errors.splitlines() if line.startswith("headrace: ")]
        assert "the executors of local[1] have no " in line
        assert "install headrace[spark] there" in line
        assert "Traceback (most recent call last)" not in errors.partition("headrace: ")[2]
        assert hr.system_proc("slow").lag().records == 1
        assert results(hr) == []


def results(hr: headrace.Headrace) -> list[Any]:
    return [info.name for info in hr.topics(prefix="out")]
