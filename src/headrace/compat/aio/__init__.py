"""The compat modules for async code."""
