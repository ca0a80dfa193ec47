"""The items of a claim on PostgreSQL come in one text, unless it would be too long."""

import psycopg
import pytest

import headrace
from headrace.testing.postgres import PrivatePostgres
from headrace.types import Query

TOO_LONG = """
create sequence {schema}.attempts;
drop function {schema}.mark_claimed;
create function {schema}.mark_claimed(
    spots tid[], claim_token text, claimer text, moment bigint, lease bigint
) returns text language plpgsql as $$
begin
    perform nextval('{schema}.attempts');
    raise exception 'cannot enlarge string buffer' using errcode = '54000';
end
$$
"""


@pytest.mark.parametrize("is_limited", [False, True], ids=["no rule", "a rule"])
@pytest.mark.parametrize(
    ("channel", "select"),
    [(None, None), ({"os": "mac"}, Query()), ({"os": "mac"}, None)],
    ids=["no channels", "by turns", "in line"],
)
def test_a_claim_too_large_for_one_text_comes_in_rows(
    postgres: PrivatePostgres,
    new_postgres_url: str,
    channel: dict[str, object] | None,
    select: Query | None,
    is_limited: bool,
) -> None:
    """A text has at most a gigabyte on PostgreSQL. Larger items must not be stuck for ever."""
    schema = new_postgres_url.rpartition("=")[2]
    with headrace.connect(new_postgres_url) as hr:
        if is_limited:
            hr.limits.create(None, 9)
        queue = hr.queue("q")
        queue.push(0, channel=channel)
        queue.complete(queue.claim(1, select=select))
        queue.push_many([1, 2, 3], channel=channel)
        postgres.execute(TOO_LONG.format(schema=schema))
        items = queue.claim(9, select=select)
        assert [item.payload for item in items] == [1, 2, 3]
        # Again with its counters locked first, under a rule: they may be the reason.
        with psycopg.connect(new_postgres_url.partition("?")[0]) as session:
            attempts = session.execute(f"select last_value from {schema}.attempts").fetchone()
        assert attempts == (2 if is_limited else 1,)
        queue.complete(items)
        assert not queue.claim(9, select=select)
