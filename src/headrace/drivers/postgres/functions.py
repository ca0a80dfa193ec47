"""Which functions a schema has, and when to replace them.

Functions change more often than tables, and replacing them needs no new version. The table
``function_set`` records the digest of the files they came from, the digest of what the server
stored, and the release. A store that may migrate replaces functions that differ from its own,
unless they came with a newer release. So two releases on one database do not replace each
other's functions in turns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import NamedTuple

from headrace.drivers.sql_common.statements import Row

_CREATE = re.compile(r"^create function ", re.MULTILINE)
_HEADER = re.compile(
    r"^create function \S+?\.(?P<name>\w+)\((?P<arguments>[^)]*)\)\s+"
    r"(?:returns (?P<result>.*?)\s+)?(?:language|stable)\b",
    re.MULTILINE | re.DOTALL,
)
# Spelled as in the catalogue; equal to signature() of the text.
_SIGNATURE = (
    "lower(concat(p.proname, '(', pg_get_function_arguments(p.oid), ') ', "
    "pg_get_function_result(p.oid)))"
)


class FunctionSet(NamedTuple):
    """The functions of this release, for one schema."""

    schema: str
    texts: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest of the texts, without the comments above them and the name of the schema."""
        bodies = (text[_start(text) :] for text in self.texts)
        whole = "\0".join(body.replace(f"{self.schema}.", "") for body in bodies)
        return sha256(whole.encode()).hexdigest()

    @property
    def signatures(self) -> list[str]:
        return [signature(text) for text in self.texts]

    def note(self) -> str:
        """Record that these functions are installed."""
        listed = ", ".join(f"'{each}'" for each in self.signatures)
        return f"""\
insert into "{self.schema}".function_set (id, digest, installed, release, signatures)
select 1, '{self.digest}', ({_installed(self.schema, f"array[{listed}]")}),
       '{release()}', array[{listed}]
on conflict (id) do update
set digest = excluded.digest, installed = excluded.installed, release = excluded.release,
    signatures = excluded.signatures, applied_at = now()"""

    def replacement(self) -> list[str]:
        """Drop the recorded functions that are not in this set, and create or replace all others.

        ``create or replace`` neither changes the result of a function nor drops an old overload.
        Functions that are not recorded are not ours.
        """
        listed = ", ".join(f"'{each}'" for each in self.signatures)
        return [
            f"""\
do $$
declare
    stale regprocedure;
begin
    for stale in
        select p.oid from pg_proc p
        where p.pronamespace = to_regnamespace('{self.schema}')
          and {_SIGNATURE} = any(array(
              select unnest(s.signatures) from "{self.schema}".function_set s))
          and {_SIGNATURE} <> all(array[{listed}])
    loop
        execute 'drop function ' || stale;
    end loop;
end
$$""",
            *(_CREATE.sub("create or replace function ", text, count=1) for text in self.texts),
            self.note(),
        ]

    def recorded(self) -> str:
        """Read what is recorded, and the digest of the functions as they are now (``present``)."""
        present = _installed(self.schema, "s.signatures")
        columns = f"digest, installed, release, ({present}) as present"
        return f'select {columns} from "{self.schema}".function_set s'

    def is_to_be_applied(self, recorded: Sequence[Row]) -> bool:
        """Whether these functions differ from the recorded ones and are not older."""
        if not recorded:
            return True
        [found] = recorded
        is_same = found["digest"] == self.digest
        is_whole = found["present"] == found["installed"]
        return not (is_same and is_whole) and (is_same or not is_newer(found["release"]))


def signature(text: str) -> str:
    """Name, parameters and result of a function, as the server's catalogue spells them."""
    header = _HEADER.search(text)
    assert header is not None, text
    arguments = " ".join(header["arguments"].split())
    outs = [each for each in arguments.split(", ") if each.startswith("out ")]
    result = header["result"] or ("record" if len(outs) > 1 else outs[0].split()[-1])
    result = " ".join(result.split()).replace("table (", "table(").replace("( ", "(")
    return f"{header['name']}({arguments}) {result.replace(' )', ')')}"


def release() -> str:
    """This release of Headrace."""
    return version("headrace")


def is_newer(other: str) -> bool:
    """Whether another release comes after this one. Pre-releases count as their release."""
    return _numbers(other) > _numbers(release())


def _numbers(name: str) -> list[int]:
    found = re.match(r"\d+(\.\d+)*", name)
    return [int(part) for part in found[0].split(".")] if found else []


def _start(text: str) -> int:
    found = _CREATE.search(text)
    assert found is not None, text
    return found.start()


def _installed(schema: str, signatures: str) -> str:
    """The digest of functions as the server has stored them."""
    return f"""
    select coalesce(md5(string_agg(replace(concat_ws('|', {_SIGNATURE}, l.lanname, p.provolatile,
               p.proisstrict, p.prosecdef, p.proconfig, p.prosrc, pg_get_function_sqlbody(p.oid)),
               '{schema}.', ''), chr(10) order by {_SIGNATURE} collate "C")), '')
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = to_regnamespace('{schema}') and {_SIGNATURE} = any({signatures})"""
