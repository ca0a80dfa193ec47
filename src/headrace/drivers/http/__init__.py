"""Headrace through a node: a driver that sends operations over HTTP."""
