"""PostgreSQL, through psycopg 3.

It keeps no session state: every operation may run on another server connection, so a pooler in
transaction mode can be in between.
"""
