"""``headrace token``."""

from run_cli import Cli

import headrace
from headrace.model.access_tokens import has_secret, parse_token


def create(cli: Cli, *options: str) -> str:
    """The text of a new token."""
    answer = cli("token", "create", "mailer", "--scope", "push:queue/mail", *options)
    assert answer.code == 0
    return answer.out.strip()


def test_a_token_is_created_rotated_and_revoked(each: Cli, durable_url: str) -> None:
    """Its text is the only line on stdout; the next step is on stderr."""
    answer = each("token", "create", "mailer", "-s", "push:queue/mail", "-s", "read:topic/*")
    first = parse_token(answer.out.strip())
    assert first is not None
    assert answer.err == f"token {first.id} ('mailer'): keep this text, it is not shown again\n"
    rotated = each("token", "rotate", first.id)
    second = parse_token(rotated.out.strip())
    assert second is not None
    assert f"headrace token revoke {first.id} --secret 1\n" in rotated.err
    with headrace.connect(durable_url) as hr:

        def valid() -> list[bool]:
            stored = hr._store.run(hr._store.tokens.info(first.id))
            return [has_secret(stored, text) for text in (first, second)]

        assert valid() == [True, True]
        asked = each("token", "revoke", first.id, "--secret", "1")
        assert (asked.code, valid()) == (2, [True, True])
        done = each("token", "revoke", first.id, "--secret", "1", "--yes")
        assert done.err.endswith(f"revoked secret 1 of token {first.id}\n")
        assert valid() == [False, True]
        each("token", "revoke", first.id, "--yes")
        assert valid() == [False, False]
    assert each("token", "ls").err == "there are no tokens that can be used\n"
    [listed] = each("token", "ls", "--all", "--json").json_lines
    assert (listed["id"], listed["state"], listed["secrets"]) == (first.id, "revoked", [])
    assert listed["scopes"] == ["push:queue/mail", "read:topic/*"]


def test_tokens_are_listed_without_secrets(cli: Cli) -> None:
    text = create(cli, "--expires", "90d")
    id, secret = text.split("_", 2)[1:]
    listed = cli("token", "ls")
    assert [word in listed.out for word in (id, "mailer", "live", "push:queue/mail")] == [True] * 4
    assert secret not in listed.out + cli("token", "ls", "--all", "--json").out


def test_json_has_the_text_once(cli: Cli) -> None:
    created = cli("token", "create", "mailer", "--scope", "admin", "--json").json
    assert parse_token(created["token"]) is not None
    assert created["expires"] is None
    assert "token" not in cli("token", "revoke", created["id"], "--yes", "--json").json


def test_mistakes_get_the_next_step(cli: Cli) -> None:
    """And never the text of a token."""
    text = create(cli)
    id, secret = text.split("_", 2)[1:]
    wrong = cli("token", "create", "mailer", "--scope", "push:mail")
    assert (wrong.code, "push applies to queue" in wrong.err) == (2, True)
    assert cli("token", "create", "mailer").code == 2
    for command in (["rotate", text], ["revoke", text, "--yes"]):
        answer = cli("token", *command)
        assert answer.code == 2
        assert f"name the token by its id, {id}" in answer.err
        assert secret not in answer.err
    gone = cli("token", "rotate", "0" * 16)
    assert (gone.code, "`headrace token ls --all`" in gone.err) == (3, True)
    cli("token", "rotate", id)
    assert f"`headrace token revoke {id} --secret NUMBER`" in cli("token", "rotate", id).err
    cli("token", "revoke", id, "--yes")
    assert "`headrace token create`" in cli("token", "rotate", id).err
