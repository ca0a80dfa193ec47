"""Schedules: when something happens, and what becomes of a schedule."""
