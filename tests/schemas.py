"""Schemas that tests reuse: creating one takes ten times as long as emptying it."""

import itertools
import os
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

import headrace
from headrace.testing.postgres import PrivatePostgres

# The contents of a schema, so that one that a test has changed is not used again.
SHAPE = """
    select (select count(*) from pg_class where relnamespace = to_regnamespace('{schema}')),
           (select count(*) from pg_attribute a join pg_class c on c.oid = attrelid
             where relnamespace = to_regnamespace('{schema}') and not attisdropped),
           (select md5(string_agg(replace(prosrc, '{schema}', ''), '' order by proname)) from pg_proc
             where pronamespace = to_regnamespace('{schema}'))
"""
# As it was when new: only the rows of the model, and numbers from the start.
EMPTY = """
    do $$
    declare each record;
    begin
        set local session_replication_role = replica;
        for each in select relname, relkind, oid from pg_class
            where relnamespace = to_regnamespace('{schema}') and relkind in ('r', 'S')
        loop
            if each.relkind = 'S' then
                perform setval(each.oid, seqstart, false) from pg_sequence
                  where seqrelid = each.oid;
            else
                execute format('delete from {schema}.%I', each.relname);
                execute format(
                    'insert into {schema}.%1$I overriding system value select * from {model}.%1$I',
                    each.relname
                );
            end if;
        end loop;
    end $$
"""

IN_USE = (DeadlockDetected, LockNotAvailable)


class Schemas:
    """The schemas of one server: lent to a test, emptied when they are returned."""

    def __init__(self, server: PrivatePostgres) -> None:
        self._url = server.url
        self._connection = psycopg.connect(
            server.url, autocommit=True, options="-c lock_timeout=5s"
        )
        self._numbers = itertools.count()
        self._free: list[str] = []
        self._model = self._made()
        self._shape = self._shape_of(self._model)

    def new(self) -> str:
        """The name of a schema that does not exist."""
        return f"t{os.getpid()}_{next(self._numbers)}"

    def lend(self) -> str:
        """A schema with our tables, all empty."""
        return self._free.pop() if self._free else self._made()

    def release(self, schema: str) -> None:
        """Lend it again if a test has not changed its structure."""
        if self._shape_of(schema) != self._shape:
            self.drop(schema)
            return
        with suppress(*IN_USE):
            self._execute(EMPTY.format(schema=schema, model=self._model))
            self._free.append(schema)

    def drop(self, schema: str) -> None:
        """Drop it, unless a client that has outlived its test is still at work in it."""
        with suppress(*IN_USE):
            self._execute(f"drop schema if exists {schema} cascade")

    def close(self) -> None:
        self._connection.close()

    def _made(self) -> str:
        schema = self.new()
        headrace.connect(f"{self._url}?schema={schema}").close()
        return schema

    def _shape_of(self, schema: str) -> object:
        return self._execute(SHAPE.format(schema=schema)).fetchall()

    def _execute(self, statement: str) -> psycopg.Cursor[Any]:
        return self._connection.execute(statement.encode())
