"""What users call: ``_async`` is written by hand, ``_sync`` is generated from it."""
