"""Topics as a source for Spark: plans and pages as plain classes, and adapters to its API."""
