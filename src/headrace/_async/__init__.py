"""The async façade, written by hand; the blocking one is generated from it."""
