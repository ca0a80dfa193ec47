"""Values that many requests have."""

Seconds = float | str
"""Seconds, or words such as ``5m``."""
Time = str | int
"""RFC 3339, or milliseconds since 1970."""
