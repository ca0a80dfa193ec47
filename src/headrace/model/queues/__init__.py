"""Settings of a queue, and the life of its items: what is stored and how it changes."""
