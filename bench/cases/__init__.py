"""The cases: what is measured, and against whom."""
