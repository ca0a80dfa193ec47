"""Async code of pipelines, written by hand; the blocking code is generated from it."""
