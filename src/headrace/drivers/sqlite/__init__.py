"""SQLite, through the standard library's ``sqlite3``.

Two copies of the SQLite library in one process lose data, because POSIX locks do not exclude each
other inside a process. So Headrace uses only this copy, for users' own connections, too.
"""
