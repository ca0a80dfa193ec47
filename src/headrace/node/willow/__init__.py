"""The HTTP API of Willow, a queue service: an adapter without state over the client."""
