"""Waits for items with many clients until it is killed."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import headrace
from headrace.testing.audit_log import AuditLog


async def main(arguments: dict[str, Any]) -> None:
    async def wait() -> None:
        async with headrace.aconnect(arguments["url"]) as hr:
            await hr.queue("q").claim(wait=None)

    waits = [asyncio.ensure_future(wait()) for _ in range(arguments["count"])]
    with AuditLog(Path(arguments["log_path"])) as log:
        log.intend(f"{arguments['name']}/ready")
        await asyncio.gather(*waits)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
