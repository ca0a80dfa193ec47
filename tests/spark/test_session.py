"""The session that pipelines run in."""

import socket
import sys

import pytest

from headrace import pipelines
from headrace.errors import InvalidOption, SparkUnavailable
from headrace.pipelines.spark_session import check_master_answers, settings_for


def test_the_session_of_the_process_is_given_again(spark):
    assert pipelines.session() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_settings_of_a_running_session_can_be_given_later(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        pipelines.session(config={"spark.sql.shuffle.partitions": 3})
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_another_master_than_the_running_one_is_refused(spark):
    with pytest.raises(InvalidOption, match=r"on local\[2\] runs in this process already"):
        pipelines.session(master="local[7]")


def test_executors_run_this_python(spark):
    def name_python(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    [row] = spark.range(1, numPartitions=1).mapInArrow(name_python, "python string").collect()
    assert row.python == sys.executable


def test_only_masters_on_this_machine_are_bound_to_it():
    assert settings_for("local[4]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings_for("spark://127.0.0.1:7077")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in settings_for("yarn")
    assert "spark.sql.shuffle.partitions" not in settings_for("yarn")


def test_without_pyspark_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkUnavailable, match=r"pip install 'headrace\[spark\]'"):
        pipelines.session()


def test_a_master_that_is_not_there_is_named():
    """At once; one of several is enough, and others than standalone ones are Spark's affair."""
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = here.getsockname()[1]
        check_master_answers(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkUnavailable, match=rf"no Spark master answers.*127\.0\.0\.1:{port}"):
        check_master_answers(f"spark://127.0.0.1:{port}")
    for other in ("local[2]", "yarn", "k8s://https://127.0.0.1:1"):
        check_master_answers(other)
