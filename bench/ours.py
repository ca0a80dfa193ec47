"""Headrace's own stores, as the cases open them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from bench.context import Facts, Lab, PeerMissing

import headrace
from headrace.testing.postgres import PostgresMissing, PrivatePostgres

SQLITE_DURABILITY = {"safe": "WAL, synced at commit", "relaxed": "WAL, synced at checkpoint"}


class Postgres(PrivatePostgres):
    """A private server as PostgreSQL comes: fsync, synchronous_commit and all."""

    def __init__(self) -> None:
        super().__init__(settings={})

    @property
    def version(self) -> str:
        [[text]] = self.execute("show server_version")
        return f"PostgreSQL {text.split()[0]}"

    @property
    def pid(self) -> int:
        """The server's first process, from which all others come."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def facts(self) -> Facts:
        client = f"headrace {headrace.__version__}, psycopg {psycopg.__version__}"
        return Facts("fsync at commit", client, self.version)

    def at(self, schema: str) -> str:
        """The URL of a store in a schema of its own."""
        return f"{self.url}?schema={schema}"

    def new_database(self, name: str) -> str:
        """The URL of a database of its own."""
        self.execute(f"create database {name}")
        return self.url.removesuffix("/postgres") + f"/{name}"


@contextmanager
def start_postgres(lab: Lab) -> Iterator[Postgres]:
    try:
        server = Postgres()
    except PostgresMissing as missing:
        raise PeerMissing(str(missing)) from missing
    with server:
        yield server


def sqlite_url(lab: Lab, name: str) -> str:
    return f"sqlite:///{lab.folder / name}.db"


def sqlite_facts(durability: str) -> Facts:
    client = f"headrace {headrace.__version__}, sqlite3"
    return Facts(SQLITE_DURABILITY[durability], client, f"SQLite {sqlite3.sqlite_version}")
