"""Wake-ups: hints that a topic has new records.

Nothing correct depends on them. Whoever waits also looks by itself every ``POLL`` seconds,
so a hint that is lost, late or switched off costs a moment and no record.
"""
