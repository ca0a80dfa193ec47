"""A build farm: commits by repository, branch and system, and what may be built when.

One build per branch, except of main. Linux builds everything; Windows and the Mac build main only.
Run it with ``python examples/builds.py``; with a URL after it, on a database of yours.
"""

import sys
from collections.abc import Iterator

import headrace
from headrace import ANY, where
from headrace.types import Query

# What a Linux runner asks for, as Willow's own document has it.
ON_LINUX = """
{"Selections": {"KeyValues": {"os": {
    "Value": {"Type": 13, "Data": "linux"}, "Comparison": "=",
    "TypeRestrictions": {"MinDataType": 13, "MaxDataType": 13}}}}}
"""


def set_up(hr: headrace.Headrace) -> headrace.Queue:
    """The queue, and the rules for what runs."""
    hr.limits.create({"repo": ANY, "branch": ANY}, 1, name="one-per-branch")
    hr.limits.override("one-per-branch", {"repo": "willow", "branch": "main"}, -1)
    hr.limits.create({"os": ANY}, 0, name="systems")
    hr.limits.override("systems", {"os": "linux"}, -1)
    hr.limits.override("systems", {"os": "windows", "branch": "main"}, -1)
    hr.limits.override("systems", {"os": "mac", "branch": "main"}, -1)
    return hr.queues.create("git-commits", max_items=50, exist_ok=True)


def push(
    commits: headrace.Queue, commit: str, branch: str, system: str
) -> headrace.types.PushResult:
    """A commit to be built; a newer one takes its place while nobody builds it."""
    return commits.push(
        commit,
        channel={"repo": "willow", "branch": branch, "os": system},
        updateable=True,
        retry_position="front",
        max_attempts=2,
        lease=60,
    )


def build(commits: headrace.Queue, select: Query) -> headrace.ClaimedItem | None:
    """What a runner does: take the next commit that it may build."""
    return next(iter(commits.claim(select=select)), None)


def story(hr: headrace.Headrace) -> Iterator[str]:
    """What happens on the farm."""
    commits = set_up(hr)
    push(commits, "c1", "new_feature_72", "linux")
    push(commits, "c2", "main", "windows")
    push(commits, "c3", "main", "linux")

    linux = Query.from_json(ON_LINUX)
    running = [item for _ in range(2) if (item := build(commits, linux))]
    yield f"linux builds {', '.join(item.payload for item in running)}"
    windows = build(commits, where(os="windows"))
    yield f"windows builds {windows.payload if windows else 'nothing'}"

    push(commits, "c4", "new_feature_72", "linux")
    newer = push(commits, "c5", "new_feature_72", "linux")
    yield f"c5 takes the place of c4: {newer.updated == 1}"
    yield f"linux finds {build(commits, linux) or 'nothing'}"
    yield f"c5 waits: {reason(commits, newer)}"

    other = push(commits, "c6", "new_feature_73", "windows")
    yield f"windows finds {build(commits, where(os='windows')) or 'nothing'}"
    yield f"c6 waits: {reason(commits, other)}"
    push(commits, "c7", "main", "windows")
    again = build(commits, where(os="windows"))
    yield f"windows builds {again.payload if again else 'nothing'} of main beside c2"

    running[0].complete()
    after = build(commits, linux)
    yield f"c1 is done, and linux builds {after.payload if after else 'nothing'}"


def reason(commits: headrace.Queue, pushed: headrace.types.PushResult) -> str:
    """Which limit an item waits for."""
    reasons = commits.why(pushed.id).reasons
    return next((words for words in reasons if "limit" in words), "nothing holds it back")


def main(url: str = "memory://") -> None:
    with headrace.connect(url) as hr:
        for line in story(hr):
            print(line)


if __name__ == "__main__":
    main(*sys.argv[1:2])
