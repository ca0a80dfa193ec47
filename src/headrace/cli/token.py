"""``headrace token``: access tokens of a node's clients."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import token_ids
from headrace.cli.prompts import YesOption, confirm
from headrace.core.tokens import IssuedToken, TokenInfo

app = group("Create, list, rotate and revoke access tokens of a node's clients.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The token's id.", autocompletion=token_ids)]


@command(app)
def create(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the token is for.")],
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            "-s",
            metavar="SCOPE",
            help="What it allows, like push:queue/mail or read:topic/*; may be repeated.",
        ),
    ],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="When it ends, like 90d; default: never."),
    ] = None,
) -> None:
    """Create a token and print its text, which is never shown again."""
    with session.open(may_create_tables=True) as hr:
        issued = hr.tokens.create(name, scope, expires=expires)
    _print_issued(session, issued)


@command(app)
def ls(
    session: CommandSession,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also tokens that were revoked or have expired.")
    ] = False,
) -> None:
    """List tokens that can be used."""
    now = datetime.now(UTC)
    with session.open() as hr:
        tokens = [info for info in hr.tokens.list() if everything or _state(info, now) == "live"]
    if session.is_json:
        for info in tokens:
            output.json_line({**_to_dict(info), "state": _state(info, now)})
        return
    output.table(
        ["ID", "NAME", "STATE", "SECRETS", "EXPIRES", "LAST USED", "SCOPES"],
        [
            [
                info.id,
                info.name,
                _state(info, now),
                ", ".join(str(secret.number) for secret in info.secrets),
                info.expires,
                info.last_used,
                ", ".join(info.scopes),
            ]
            for info in tokens
        ],
    )
    if not tokens:
        output.note("there are no tokens" if everything else "there are no tokens that can be used")


@command(app)
def rotate(session: CommandSession, id: Id) -> None:
    """Give a token a second secret and print the new text; the old text stays valid."""
    with session.open() as hr:
        issued = hr.tokens.rotate(id)
    _print_issued(session, issued)
    old, *_ = issued.info.secrets
    output.note(
        f"when all its users have the new text: headrace token revoke {id} --secret {old.number}"
    )


@command(app)
def revoke(
    session: CommandSession,
    id: Id,
    *,
    secret: Annotated[
        int | None,
        typer.Option("--secret", metavar="NUMBER", help="Only this secret; `ls` lists them."),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Revoke a token for good, or one of its secrets."""
    with session.open() as hr:
        info = hr.tokens.info(id)
        what = f"token {id} ({info.name!r})" if secret is None else f"secret {secret} of token {id}"
        confirm(f"{what} will be refused from now on", is_confirmed=yes)
        left = hr.tokens.revoke(id, secret=secret)
    if session.is_json:
        output.json_document(_to_dict(left))
    else:
        gone = "; the token has no secret left" if secret is not None and left.revoked else ""
        output.note(f"revoked {what}{gone}")


def _print_issued(session: CommandSession, issued: IssuedToken) -> None:
    if session.is_json:
        output.json_document({"token": issued.text, **_to_dict(issued.info)})
        return
    output.line(issued.text)
    output.note(
        f"token {issued.info.id} ({issued.info.name!r}): keep this text, it is not shown again"
    )


def _state(info: TokenInfo, now: datetime) -> str:
    if info.revoked is not None:
        return "revoked"
    return "expired" if info.expires is not None and info.expires <= now else "live"


def _to_dict(info: TokenInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "name": info.name,
        "scopes": info.scopes,
        "secrets": [
            {"secret": secret.number, "created": secret.created} for secret in info.secrets
        ],
        "created": info.created,
        "expires": info.expires,
        "last_used": info.last_used,
        "revoked": info.revoked,
    }
