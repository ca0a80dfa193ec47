"""Frozen values and pure rules: nothing here does I/O or asks for the time."""
