"""Async code of the compat modules, written by hand; the blocking code is generated from it."""
