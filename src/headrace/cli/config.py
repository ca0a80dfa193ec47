"""``headrace config``: which settings are in force, and where they come from."""

from __future__ import annotations

import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.model.settings import Setting, Settings
from headrace.model.url import parse_url

app = typer.Typer(help="Which settings are in force.", no_args_is_help=True)


@command(app)
def show(session: Session) -> None:
    """Print every setting, its value and where it comes from; passwords are masked."""
    found = session.settings()
    rows = [(setting.name, *_in_force(setting, found)) for setting in found.all]
    if session.is_json:
        output.document({name: {"value": value, "origin": origin} for name, value, origin in rows})
        return
    output.table(["SETTING", "VALUE", "FROM"], rows)


def _in_force(setting: Setting, found: Settings) -> tuple[object, str]:
    """The value that counts, and its origin; the URL may set what nobody else has."""
    if setting.origin is not None:
        return setting.shown, setting.origin
    url = found["url"].value
    if url is not None and setting.name in (options := parse_url(url).options):
        return options[setting.name], "the url"
    return setting.value, "default" if setting.value is not None else "not set"
