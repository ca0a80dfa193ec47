"""Pipelines in the session of Spark Connect that ``session`` itself gives."""

import os
import subprocess
import sys
from pathlib import Path

import headrace

HERE = Path(__file__).parent
JOBS = HERE.parent / "pipelines"
SECONDS = 200


def test_a_pipeline_runs_in_a_session_of_connect(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        hr.commit_many("in", [{"n": n} for n in range(50)])
        done = subprocess.run(
            [sys.executable, HERE / "children" / "connected.py", sqlite_url],
            env={**os.environ, "PYTHONPATH": str(JOBS)},
            cwd=JOBS,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        module, count = done.stdout.split()
        assert (module.startswith("pyspark.sql.connect"), count) == (True, "50")
        assert [record.body for record in hr.range("out")] == [{"n": 2 * n} for n in range(50)]
