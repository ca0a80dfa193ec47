"""Wake-ups: hints that a topic has new records.

Nothing correct depends on them. Whoever waits also looks by itself every ``POLL`` seconds, or
every ``SURE_POLL`` if hints are proven to arrive, so a hint that is lost, late or switched off
costs a moment and no record.
"""
