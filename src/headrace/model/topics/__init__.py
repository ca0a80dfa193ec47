"""Records, positions in a topic, procs, retention."""
