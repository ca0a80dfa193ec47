"""A store in this process's memory: the reference model, also useful in tests.

``memory://`` is private to its client; ``memory://name`` is shared by all clients of this
process that use that name. Nothing survives the process.
"""
