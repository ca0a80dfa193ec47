"""Code that scripts write is what they write now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_blocking_client_is_generated_from_the_async_one() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/generate-sync", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
