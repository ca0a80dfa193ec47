"""SQLite, through the standard library's ``sqlite3``.

Two copies of the SQLite library in one process lose data, since POSIX locks do not
exclude inside a process; so this is the one copy, the user's own connections included.
"""
