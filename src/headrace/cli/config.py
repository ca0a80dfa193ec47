"""``headrace config``: the settings in effect, and where they come from."""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.model.settings import Setting, Settings
from headrace.model.url import parse_url

app = group("Show the settings in effect.")


@command(app)
def show(session: CommandSession) -> None:
    """Print every setting, its value and where it comes from; passwords are masked.

    The last row is the settings file, and the topmost directory that was searched for it.
    """
    settings = session.client_settings()
    rows = [(setting.name, *_in_effect(setting, settings)) for setting in settings.all]
    root = f"the project's root {settings.root}" if settings.root else "the working directory"
    rows.append(("file", settings.file, root))
    if session.is_json:
        output.json_document(
            {name: {"value": value, "origin": origin} for name, value, origin in rows}
        )
        return
    output.table(["SETTING", "VALUE", "FROM"], rows)


def _in_effect(setting: Setting, settings: Settings) -> tuple[object, str]:
    """The value in effect and its origin; the URL may set what nothing else sets."""
    if setting.origin is not None:
        return setting.shown, setting.origin
    url = settings["url"].value
    if url is not None and setting.name in (options := parse_url(url).options):
        return options[setting.name], "the url"
    return setting.value, "default" if setting.value is not None else "not set"
