"""A standalone cluster of two workers, as the installed package brings it."""

import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from cluster import QUICK_JAVA, cluster

import headrace
from faults.polling import until
from headrace.errors import SparkUnavailable

JOBS = """
import os, time
from pathlib import Path
from headrace.worker import App

app = App()
here = Path(__file__).parent

@app.pipeline(source="in", to="out", lease=20)
def slow(body):
    (here / f"running-{os.getpid()}").touch()
    while not (here / "go").exists():
        time.sleep(0.02)
    return {"n": body["n"] * 2}
"""
RECORDS = 40


def run(folder: Path, url: str, master: str) -> subprocess.Popen[str]:
    """``headrace pipeline run`` as a driver of its own."""
    source = str(Path(headrace.__file__).parents[1])
    quick = f"--conf 'spark.executor.extraJavaOptions={QUICK_JAVA}' pyspark-shell"
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", "pipeline", "run", "jobs:app", "--master", master],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": source,
            "HEADRACE_URL": url,
            "PYSPARK_SUBMIT_ARGS": quick,
        },
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
    """The job is done elsewhere; and Ctrl-C ends the driver in order, although Spark wants it."""
    with headrace.connect(postgres_url) as hr, cluster(folder) as found:
        hr.commit_many("in", [{"n": n} for n in range(RECORDS)])
        driver = run(folder, postgres_url, found.master)
        try:
            [busy] = until(lambda: list(folder.glob("running-*")), "a task", 180)
            above = ancestors(int(busy.name.partition("-")[2]))
            [executor] = [pid for pid in found.executors() if pid in above]
            os.kill(executor, signal.SIGKILL)
            until(lambda: len(list(folder.glob("running-*"))) > 1, "the task elsewhere", 180)
            driver.send_signal(signal.SIGINT)
            until(lambda: "stopping" in driver.stderr.readline(), "that it has heard", 60)
            (folder / "go").touch()
            _, errors = driver.communicate(timeout=180)
        finally:
            driver.kill()
            driver.communicate()
        assert driver.returncode == 0, errors[-2000:]
        assert [record.body["n"] for record in hr.range("out")] == [n * 2 for n in range(RECORDS)]
        [proc] = hr.pipeline("slow").info().procs
        assert (proc.attempts, proc.position) == (0, RECORDS)


def test_executors_without_the_package_are_named(
    spark: Any, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, with what to do; nothing is lost, and nothing counted against the records."""
    venv.create(tmp_path / "bare", with_pip=False)
    # What PYSPARK_PYTHON would have said when the session was made.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    with headrace.connect(sqlite_url) as hr:
        hr.commit("in", {"n": 1})
        made = hr.pipelines.create("p", source="in", to="out", processor=lambda body: body)
        with pytest.raises(SparkUnavailable) as caught:
            made.run_once(spark=spark)
        said = str(caught.value)
        assert "the executors of local[2] have no " in said
        assert "install headrace[spark] there" in said
        assert "\n" not in said
        assert made.lag().records == 1
        assert made.info().procs[0].attempts == 0
        assert hr.topics.list(prefix="out") == []
