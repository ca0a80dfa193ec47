"""A store in this process's memory: the reference model, and a companion for tests.

``memory://`` is private to its client; ``memory://name`` is shared by all clients of this
process that name it. Nothing survives the process.
"""
