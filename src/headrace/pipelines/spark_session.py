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
from headrace.pipelines.spark_connect import (
    activate,
    activate_session_on_write,
    has_ended,
    master_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_THIS_MACHINE = re.compile(r"local\b|spark://(localhost|127\.0\.0\.1|\[::1\]):")
_STANDALONE = re.compile(r"(\[[^]]+\]|[^/,:]+):(\d+)")
_STREAMING = "org.apache.spark.sql.execution.streaming"

SETTINGS = {
    # A checkpoint takes a quarter of the time that it takes with the default.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # transformWithState requires it, and it suits large state.
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_STREAMING}.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Between Spark and its Python workers: reads take two thirds of the time of TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Time windows and days are the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
MASTER_ANSWER_SECONDS = 5.0
_LOGGING = STAND_IN / "log4j2.properties"


def session(
    name: str = "headrace",
    *,
    master: str | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """The process's Spark session, started if there is none.

    ``master`` is ``local[*]`` by default. ``config`` has Spark's own settings, which override
    those of Headrace. A session that runs already gets the settings that can still be changed.
    Sessions that you create yourself work as well; ``transformWithState`` needs the state store of
    RocksDB.

    Raises ``SparkUnavailable`` if there is no PySpark, or no Java it can run on.
    """
    sql = require_module("pyspark.sql")
    activate_session_on_write()
    running = _running_session(sql)
    if running is not None:
        activate(running)
        _check_same_master(running, master)
        master = master_of(running)
    chosen = {**settings_for(master or "local[*]"), **_as_spark_text(config or {})}
    builder = sql.SparkSession.builder.appName(name).config(map=chosen)
    if running is not None:
        for key in chosen.keys() & {**SETTINGS, **(config or {})}.keys():
            if running.conf.isModifiable(key):
                running.conf.set(key, chosen[key])
        return running
    check_master_answers(master or "local[*]")
    with _environment({**find_java().environment, **_variables(master or "local[*]")}):
        try:
            return builder.master(master or "local[*]").getOrCreate()  # type: ignore[no-any-return]  # ``sql`` is imported when it is needed, and so untyped
        except Exception as error:
            raise _explain(error, master) from error


def _running_session(sql: Any) -> SparkSession | None:
    """The process's session, even if it is not active in this thread."""
    found = sql.SparkSession.getActiveSession() or sql.SparkSession._instantiatedSession  # noqa: SLF001  # no other way
    return None if found is None or has_ended(found) else found


def check_master_answers(master: str) -> None:
    """Raise ``SparkUnavailable`` if no standalone master answers; Spark would try for a minute."""
    addresses = _STANDALONE.findall(master) if master.startswith("spark://") else []
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_ANSWER_SECONDS).close()
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
    """The settings of Headrace for a master; on this machine they bind to loopback."""
    settings = dict(SETTINGS)
    local = _LOCAL.fullmatch(master)
    if local:
        cores = local[1] or "1"
        count = (os.cpu_count() or 1) if cores == "*" else int(cores)
        settings["spark.sql.shuffle.partitions"] = str(count)
    if _THIS_MACHINE.match(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if "SPARK_CONF_DIR" not in os.environ:
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    return settings


def _variables(master: str) -> dict[str, str]:
    """Settings that Spark reads only from the environment."""
    # Executors on other machines have their own Python; on this machine they use this one.
    if not _THIS_MACHINE.match(master):
        return {"PYSPARK_DRIVER_PYTHON": sys.executable}
    is_stood_in = os.name == "posix" and _LOCAL.fullmatch(master)
    python = str(STAND_IN / "bin" / "python") if is_stood_in else sys.executable
    return {
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", python),
        "PYSPARK_DRIVER_PYTHON": python,
        "HEADRACE_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }


def require_module(module: str) -> Any:
    """Import a module of PySpark or pyarrow; ``SparkUnavailable`` says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SparkUnavailable(
            f"pipelines on Spark need {module.partition('.')[0]}: pip install 'headrace[spark]'.",
            missing=error.name or module,
        ) from error


def _check_same_master(running: SparkSession, master: str | None) -> None:
    present = master_of(running)
    if master is not None and master != present:
        raise InvalidOption(
            f"a Spark session on {present} runs in this process already: stop it before you start "
            f"one on {master}.",
            option="master",
        )


def _as_spark_text(config: Mapping[str, object]) -> dict[str, str]:
    """Values as Spark writes them: true, not True."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in config.items()
    }


def _explain(error: Exception, master: str | None) -> Exception:
    text = str(error)
    if "Could not parse Master URL" in text:
        return InvalidOption(
            f"Spark does not know the master {master!r}: use local[*], local[4], "
            "spark://host:port, yarn or k8s://….",
            option="master",
        )
    return SparkUnavailable(f"Spark did not start: {first_line(text)}", missing="spark")


def first_line(text: str) -> str:
    """The first line of a long message."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


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
