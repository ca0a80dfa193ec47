"""A standalone cluster from the installed package, on loopback."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from faults.polling import until
from headrace.pipelines.java import find_java

HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
# They live for seconds: compile quickly, not well.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster(NamedTuple):
    """The address of its master, and the processes of its workers."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def executors(self) -> list[int]:
        """The processes in which tasks run."""
        return [pid for worker in self.workers for pid in _children(worker.pid)]


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each. They end with the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        processes.append(_start(log, f"{DEPLOY}.master.Master", "--host", LOOPBACK, "--port", "0"))
        found = until(
            lambda: re.search(r"Starting Spark master at (\S+)", _read(log)), "a master", 120
        )
        master = found[1]
        for number in range(workers):
            arguments = (
                "--host",
                LOOPBACK,
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                str(folder / f"w{number}"),
            )
            processes.append(
                _start(
                    folder / f"worker{number}.log", f"{DEPLOY}.worker.Worker", *arguments, master
                )
            )
        until(lambda: _read(log).count("Registering worker") == workers, "workers", 120)
        yield Cluster(master, processes[1:])
    finally:
        for process in processes:
            # With the executors that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    java = find_java().environment
    with log.open("wb") as output:
        return subprocess.Popen(
            [HOME / "bin" / "spark-class", name, "--webui-port", "0", *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                **java,
                "SPARK_HOME": str(HOME),
                "SPARK_LOCAL_IP": LOOPBACK,
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
                "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
            },
            start_new_session=True,
        )


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _children(pid: int) -> list[int]:
    """Java processes below a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found
