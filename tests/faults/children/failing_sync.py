"""Runs crash cases on a disk that fails to sync, each in a process that is killed right after."""

import ctypes
import json
import os
import platform
import signal
import struct
import sys
from pathlib import Path

import pytest

import headrace
from faults.children.forks import await_end, fork
from faults.crash_cases import CASES
from headrace.errors import HeadraceError, OutcomeUnknown

# The kernel's names for this machine, and the numbers of its fsync and fdatasync.
MACHINES = {"x86_64": (0xC000003E, 74, 75), "aarch64": (0xC00000B7, 82, 83)}
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, ANSWER = 0x20, 0x15, 0x06
ALLOW, ERRNO, EIO = 0x7FFF0000, 0x00050000, 5


def fail_syncs() -> None:
    """From now on the kernel answers each sync of this thread with EIO.

    A seccomp filter needs no rights, no compiler and no other disk, and cannot be undone.
    """
    machine, fsync, fdatasync = MACHINES[platform.machine()]
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 0, 3, machine),
        (LOAD, 0, 0, 0),
        (EQUAL, 2, 0, fsync),
        (EQUAL, 1, 0, fdatasync),
        (ANSWER, 0, 0, ALLOW),
        (ANSWER, 0, 0, ERRNO | EIO),
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((NO_NEW_PRIVS, 1, 0), (SECCOMP, FILTER, program)):
        if libc.prctl(*call, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl failed")
    with pytest.raises(OSError, match="Input/output error"):
        os.fsync(1)


def names_for(case: str) -> str:
    """The names that a crash case uses."""
    return case.replace(" ", "-")


def run_case(url: str, log_path: str, case: str) -> None:
    """Run a crash case, record the answer, and be killed."""
    hr = headrace.connect(url)
    # The first commit of a log syncs its head before anything else.
    hr.commit("before", {})
    fail_syncs()
    try:
        CASES[case].act(hr, names_for(case))
    except OutcomeUnknown:
        answer = "unknown"
    except HeadraceError as error:
        answer = f"no: {error}"
    else:
        answer = "yes"
    with Path(log_path).open("a") as file:
        print(json.dumps({"case": case, "answer": answer}), file=file)
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, log_path: str, name: str, cases: list[str]) -> None:
    for case in cases:
        await_end(fork(lambda s=case: run_case(url, log_path, s)), -signal.SIGKILL)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
