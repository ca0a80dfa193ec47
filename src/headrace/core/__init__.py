"""Decisions between the user's call and the store's operations. No I/O."""
