"""Topics as a source for Spark: plain classes for plans and pages, and adapters to Spark's API."""
