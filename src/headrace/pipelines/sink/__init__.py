"""Writing topics and queues from Spark: plain classes, and adapters to its API."""
