"""The command line: one file per noun, one command per method of the library.

Data goes to stdout, messages to stderr. No command depends on one kind of store.
"""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command ``headrace``."""
    # rich is imported only where it is used, since it takes long to load.
    if not (find_spec("typer") and find_spec("rich")):
        sys.exit("headrace: the command line needs typer and rich: pip install 'headrace[cli]'")
    from headrace.cli.app import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal cannot encode is printed as an escape, not as an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="headrace")
