"""Async code of workers, written by hand; the blocking code is generated from it."""
