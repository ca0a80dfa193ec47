"""Plain operations for users: each a line over the same operations, blocking and async."""
