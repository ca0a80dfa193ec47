"""Whether pipelines can run on Spark here. Nothing is started for it, nor imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from headrace.contract.values import Fact, Finding
from headrace.errors import SparkUnavailable
from headrace.pipelines.java import find_java

# What the settings of a session, and the source and the sink, were tried with.
TRIED = "4.3"
_NEEDED = ("pyspark", "pyarrow", "pandas", "numpy")


def examine(environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Judge what is installed for Spark, and the Java it would start on."""
    found = installed()
    if "pyspark" not in found:
        return [spark(found)]
    return [spark(found), java(environ)]


def installed() -> dict[str, str]:
    """The packages that Spark needs and that are here, with their versions."""
    versions = {}
    for name in _NEEDED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def spark(found: Mapping[str, str]) -> Finding:
    """Is Spark here, with all it needs, in versions that go together?"""
    facts: dict[str, Fact] = dict(found)
    if "pyspark" not in found:
        # Nobody has to use it.
        text = "not installed; pipelines run on the inline engine (pip install 'headrace[spark]')"
        return Finding(check="spark", verdict="ok", found=text, facts=facts)
    listed = ", ".join(f"{name} {number}" for name, number in found.items())
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        text = f"{listed}; without {' and '.join(missing)} nothing runs on it"
        return _watched("spark", text, "pip install 'headrace[spark]'", facts)
    if not found["pyspark"].startswith(f"{TRIED}."):
        text = f"{listed}: Headrace is tried with PySpark {TRIED}"
        return _watched("spark", text, f"pip install 'pyspark[sql]=={TRIED}.*'", facts)
    if int(found["pandas"].split(".")[0]) >= 3:
        text = f"{listed}: this PySpark is not ready for pandas 3"
        return _watched("spark", text, "pip install 'pandas<3'", facts)
    return Finding(check="spark", verdict="ok", found=listed, facts=facts)


def java(environ: Mapping[str, str] | None = None) -> Finding:
    """Which Java would Spark start on?"""
    try:
        found = find_java(os.environ if environ is None else environ)
    except SparkUnavailable as error:
        text, _, next_step = str(error).partition(": ")
        return _watched("java", text, next_step, {})
    facts: dict[str, Fact] = {"version": found.version, "home": str(found.home)}
    text = f"Java {found.version} of {found.origin}, {found.home}"
    return Finding(check="java", verdict="ok", found=text, facts=facts)


def _watched(check: str, found: str, next_step: str, facts: dict[str, Fact]) -> Finding:
    return Finding(check=check, verdict="warn", found=found, next_step=next_step, facts=facts)
