"""Errors of the library in the words of the command line.

The library's messages end with the next step in Python. Here it is a command.
"""

from __future__ import annotations

import shlex

from headrace.errors import (
    HeadraceError,
    ItemActive,
    QueueExists,
    TokenEnded,
    TooManySecrets,
    UnknownLimit,
    UnknownLock,
    UnknownPipeline,
    UnknownProc,
    UnknownQueue,
    UnknownSchedule,
    UnknownSink,
    UnknownToken,
    UnknownTopic,
)

_NEXT_STEPS: dict[type[HeadraceError], str] = {
    UnknownTopic: "list topics with `headrace topic ls`, or commit a record to create it",
    UnknownProc: (
        "list procs with `headrace proc ls`, or create it with "
        "`headrace proc create {proc} --topic TOPIC`"
    ),
    UnknownPipeline: "list pipelines with `headrace pipeline ls`",
    UnknownQueue: (
        "list queues with `headrace queue ls`, create it with `headrace queue create {queue}`, or "
        "push the first item"
    ),
    UnknownLimit: "list limits with `headrace limit ls`",
    UnknownSink: "list sinks with `headrace sink ls`",
    UnknownSchedule: "list schedules with `headrace schedule ls`",
    UnknownToken: "list tokens with `headrace token ls --all`",
    TooManySecrets: "`headrace token revoke {id} --secret NUMBER` revokes the one that is no longer used",
    TokenEnded: "`headrace token create` creates another",
    UnknownLock: "list locks with `headrace lock ls`",
    QueueExists: "change it with `headrace queue set {queue} OPTION=VALUE`",
    ItemActive: "wait for its outcome",
}
"""What to do about an error. It replaces what follows the last colon of the message."""

_PHRASES = {
    "connect once with migrate='auto' or run headrace migrate": "run `headrace migrate`",
    "hr.queue(name).update(keep='all')": "`headrace queue set QUEUE keep=all`",
    "use a timedelta, seconds, or words": "use seconds, or words",
    "use a string, an int, a float or typed(type, value)": "use text or a number",
    "use strict=False": "leave --strict out",
    "on='enqueued'": "--enqueued",
    "give replace=True to replace it": "--replace replaces it",
    "cron='30 2 * * *', every='10m' or at=a moment": "--cron '30 2 * * *', --every 10m or --at MOMENT",
    "for seconds use every=": "for seconds use --every",
    "hr.tokens.list() lists them": "`headrace token ls --all` lists them",
    "allow=['package'], --allow package": "--allow package",
}


def message_of(error: HeadraceError) -> str:
    """The message of an error, with commands in place of calls."""
    step = _NEXT_STEPS.get(type(error))
    if step is None:
        message = error.message
        for phrase, words in _PHRASES.items():
            message = message.replace(phrase, words)
        return message
    # A name may contain a colon; what the library advises does not.
    what = error.message.rpartition(": ")[0] or error.message.removesuffix(".")
    names = {name: shlex.quote(str(value)) for name, value in error.details.items()}
    return f"{what}: {step.format_map(names)}."
