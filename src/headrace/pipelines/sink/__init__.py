"""Topics and queues as a sink for Spark: plain classes, and adapters to Spark's API."""
