"""The cases: what is measured, and against which contenders."""
