"""The async client, written by hand; the blocking one is generated from it."""
