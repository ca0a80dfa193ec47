"""The WebSocket of a node: topics and queues over one connection."""
