"""Typed values, key-values, and the queries and patterns over them."""
