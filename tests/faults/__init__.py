"""Real processes, real kills, real servers that go away."""
