"""The command line: one file per noun, one command per method of the library.

Data goes to stdout, talk to stderr. Nothing here knows one engine from another.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command ``headrace``."""
    try:
        from headrace.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("headrace: the command line needs typer and rich: pip install 'headrace[cli]'")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where the terminal lacks a letter, an escape is better than an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="headrace")
