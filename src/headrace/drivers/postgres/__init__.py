"""PostgreSQL, through psycopg 3.

No session state: every operation may run on another server connection, so a pooler in
transaction mode can sit in between.
"""
