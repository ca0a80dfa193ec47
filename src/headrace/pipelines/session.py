"""A Spark session with settings that suit pipelines over topics."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidOption, SparkUnavailable
from headrace.pipelines.java import STAND_IN, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_HERE = re.compile(r"local\b|spark://(localhost|127\.0\.0\.1|\[::1\]):")
_STANDALONE = re.compile(r"(\[[^]]+\]|[^/,:]+):(\d+)")
_STREAMING = "org.apache.spark.sql.execution.streaming"

SETTINGS = {
    # A read that names its seqs, times or ids reads no others.
    "spark.sql.python.filterPushdown.enabled": "true",
    # The checkpoint of a micro-batch costs a quarter of what the default makes of it.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # transformWithState works with this one only, and large state wants it anyway.
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_STREAMING}.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Between Spark and its Pythons: reads take two thirds of the time they take by TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Windows and days are the same wherever a pipeline runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ANSWER_SECONDS = 5.0
_LOGGING = STAND_IN / "log4j2.properties"


def session(
    name: str = "headrace",
    *,
    master: str | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """The process's Spark session, started if there is none.

    ``master`` is ``local[*]`` if nothing is said. ``config`` has Spark's own settings; they
    come before those of Headrace. A session that runs already is given those settings that
    can still be changed. Sessions that you make yourself work as well: what they need is
    ``spark.sql.python.filterPushdown.enabled`` for batch reads, and for ``transformWithState``
    the state store of RocksDB.

    Raises ``SparkUnavailable`` if there is no PySpark, or no Java it can run on.
    """
    sql = need_spark("pyspark.sql")
    running = sql.SparkSession.getActiveSession()
    if running is not None:
        _check_same_master(running, master)
        master = running.conf.get("spark.master")
    chosen = {**settings_for(master or "local[*]"), **_as_text(config or {})}
    builder = sql.SparkSession.builder.appName(name).config(map=chosen)
    if running is not None:
        for key in chosen.keys() & {**SETTINGS, **(config or {})}.keys():
            if running.conf.isModifiable(key):
                running.conf.set(key, chosen[key])
        return running  # type: ignore[no-any-return]  # pyspark came by its name
    check_answers(master or "local[*]")
    with _environment({**find_java().environment, **_variables(master or "local[*]")}):
        try:
            return builder.master(master or "local[*]").getOrCreate()  # type: ignore[no-any-return]
        except Exception as error:
            raise _explained(error, master) from error


def check_answers(master: str) -> None:
    """``SparkUnavailable`` if no standalone master is there. Spark tries for a minute first."""
    places = _STANDALONE.findall(master) if master.startswith("spark://") else []
    reasons = []
    for host, port in places:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if reasons:
        raise SparkUnavailable(
            f"no Spark master answers at {master} ({'; '.join(reasons)}): start it, or check the "
            "address.",
            missing="master",
        )


def settings_for(master: str) -> dict[str, str]:
    """The settings of Headrace for a master; on this machine they keep to loopback."""
    settings = dict(SETTINGS)
    local = _LOCAL.fullmatch(master)
    if local:
        cores = local[1] or "1"
        count = (os.cpu_count() or 1) if cores == "*" else int(cores)
        settings["spark.sql.shuffle.partitions"] = str(count)
    if _HERE.match(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if "SPARK_CONF_DIR" not in os.environ:
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    return settings


def _variables(master: str) -> dict[str, str]:
    """What Spark takes from the environment only."""
    # Executors on other machines have a Python of their own; here it is this one.
    if not _HERE.match(master):
        return {"PYSPARK_DRIVER_PYTHON": sys.executable}
    is_stood_in = os.name == "posix" and _LOCAL.fullmatch(master)
    python = str(STAND_IN / "bin" / "python") if is_stood_in else sys.executable
    return {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", python),
        "PYSPARK_DRIVER_PYTHON": python,
        "HEADRACE_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }


def need_spark(module: str) -> Any:
    """A module of PySpark or pyarrow, or ``SparkUnavailable`` with what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SparkUnavailable(
            f"pipelines on Spark need {module.partition('.')[0]}: pip install 'headrace[spark]'.",
            missing=error.name or module,
        ) from error


def _check_same_master(running: SparkSession, master: str | None) -> None:
    theirs = running.conf.get("spark.master")
    if master is not None and master != theirs:
        raise InvalidOption(
            f"a Spark session on {theirs} runs in this process already: stop it before you ask "
            f"for one on {master}.",
            option="master",
        )


def _as_text(config: Mapping[str, object]) -> dict[str, str]:
    """Spark's way to write values: true, not True."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in config.items()
    }


def _explained(error: Exception, master: str | None) -> Exception:
    text = str(error)
    if "Could not parse Master URL" in text:
        return InvalidOption(
            f"Spark does not know the master {master!r}: use local[*], local[4], "
            "spark://host:port, yarn or k8s://….",
            option="master",
        )
    return SparkUnavailable(f"Spark did not start: {first_line(text)}", missing="spark")


def first_line(text: str) -> str:
    """What of a long message is worth to be said."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it did not say why")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
