"""Items of a claim on PostgreSQL: in one text, unless it would be too long."""

import pytest

import headrace
from headrace import Query
from headrace.testing.postgres import PrivatePostgres

TOO_LONG = """
create or replace function {schema}.hand_out(
    spots tid[], claim_token text, claimer text, moment bigint, lease bigint
) returns text language plpgsql as $$
begin
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
def test_what_is_too_much_for_one_text_comes_in_rows(
    postgres: PrivatePostgres,
    new_postgres_url: str,
    channel: dict[str, object] | None,
    select: Query | None,
    is_limited: bool,
) -> None:
    """A text has no more than a gigabyte there. What does not fit must not be stuck for ever."""
    schema = new_postgres_url.rpartition("=")[2]
    with headrace.connect(new_postgres_url) as hr:
        if is_limited:
            hr.create_limit(None, 9)
        queue = hr.queue("q")
        queue.push(0, channel=channel)
        queue.complete(queue.claim(1, select=select))
        queue.push_many([1, 2, 3], channel=channel)
        postgres.execute(TOO_LONG.format(schema=schema))
        items = queue.claim(9, select=select)
        assert [item.payload for item in items] == [1, 2, 3]
        queue.complete(items)
        assert not queue.claim(9, select=select)
