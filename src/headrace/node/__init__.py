"""The node: a process that owns a store and serves it to clients of other processes."""
