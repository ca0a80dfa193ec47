"""Streams of a node: records and items that it sends as they come."""
