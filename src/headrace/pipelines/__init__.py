"""Pipelines: topics in, topics out, on Spark.

>>> spark = session()
>>> records = spark.read.format("headrace").option("url", url).option("topic", "orders").load()

Importing this needs neither PySpark nor Java; functions that need them say so if they are missing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipelines.apps import run
    from headrace.pipelines.progress import PipelineProgress
    from headrace.pipelines.runner import PipelineRunner
    from headrace.pipelines.spark_session import session
else:
    from headrace.model.late_names import late

    __getattr__ = late(
        __name__,
        PipelineProgress="headrace.pipelines.progress",
        PipelineRunner="headrace.pipelines.runner",
        run="headrace.pipelines.apps",
        session="headrace.pipelines.spark_session",
    )

__all__ = ["PipelineProgress", "PipelineRunner", "run", "session"]
