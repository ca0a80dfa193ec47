"""Pipelines: topics in, topics out, on Spark.

>>> spark = session()
>>> records = spark.read.format("headrace").option("url", url).option("topic", "orders").load()

Importing this needs neither PySpark nor Java; what runs on them says so when they are missing.
"""

from headrace.pipelines.apps import run
from headrace.pipelines.progress import PipelineProgress
from headrace.pipelines.runner import PipelineRunner
from headrace.pipelines.session import session

__all__ = ["PipelineProgress", "PipelineRunner", "run", "session"]
