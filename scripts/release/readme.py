"""A hook of hatchling: the README as the package page shows it.

The files of the repository are not there. A link to one of them becomes plain text, and a
picture is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?![a-z]+:)[^)]*\)\n*")
_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)[^)]*\)")


class PackageReadme(MetadataHookInterface):
    """Sets the readme in the metadata of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_package_page(text)}


def for_package_page(text: str) -> str:
    """The text without links and pictures that need the repository."""
    return _LINK.sub(r"\1", _PICTURE.sub("", text))
