"""Tests and tools that prove a driver, in this project and outside of it.

``contract``  the suite every driver must pass, as classes to subclass. ``postgres``  a private
PostgreSQL server in a temporary folder. ``faults``    crashes at any step of an operation, and
sessions stepped by hand.
"""
