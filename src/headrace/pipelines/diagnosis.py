"""Checks whether pipelines can run on Spark on this machine, without starting or importing it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from headrace.contract.values import Fact, Finding
from headrace.errors import SparkUnavailable
from headrace.pipelines.java import find_java

# The version of PySpark that sessions, the source and the sink are tested with.
TESTED_VERSION = "4.3"
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy")


def diagnose(environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Check the packages that are installed for Spark, and the Java that it would start on."""
    versions = installed()
    if "pyspark" not in versions:
        return [spark(versions)]
    return [spark(versions), java(environ)]


def installed() -> dict[str, str]:
    """The packages for Spark that are installed, with their versions."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def spark(versions: Mapping[str, str]) -> Finding:
    """Whether Spark is installed with all packages, in versions that work together."""
    facts: dict[str, Fact] = dict(versions)
    if "pyspark" not in versions:
        # Spark is optional.
        text = "not installed; pipelines run on the inline engine (pip install 'headrace[spark]')"
        return Finding(check="spark", verdict="ok", found=text, facts=facts)
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    missing = [name for name in _PACKAGES if name not in versions]
    if missing:
        text = f"{listed}; pipelines on Spark need {' and '.join(missing)}"
        return _warning("spark", text, "pip install 'headrace[spark]'", facts)
    if not versions["pyspark"].startswith(f"{TESTED_VERSION}."):
        text = f"{listed}: Headrace is tested with PySpark {TESTED_VERSION}"
        return _warning("spark", text, f"pip install 'pyspark[sql]=={TESTED_VERSION}.*'", facts)
    if int(versions["pandas"].split(".")[0]) >= 3:
        text = f"{listed}: this PySpark does not support pandas 3"
        return _warning("spark", text, "pip install 'pandas<3'", facts)
    return Finding(check="spark", verdict="ok", found=listed, facts=facts)


def java(environ: Mapping[str, str] | None = None) -> Finding:
    """The Java that Spark would start on."""
    try:
        found = find_java(os.environ if environ is None else environ)
    except SparkUnavailable as error:
        text, _, next_step = str(error).partition(": ")
        return _warning("java", text, next_step, {})
    facts: dict[str, Fact] = {"version": found.version, "home": str(found.home)}
    text = f"Java {found.version} of {found.origin}, {found.home}"
    return Finding(check="java", verdict="ok", found=text, facts=facts)


def _warning(check: str, found: str, next_step: str, facts: dict[str, Fact]) -> Finding:
    return Finding(check=check, verdict="warn", found=found, next_step=next_step, facts=facts)
