"""Limit rules, the counters they check, and rates."""
