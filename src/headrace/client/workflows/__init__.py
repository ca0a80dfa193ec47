"""Plans: several operations, perhaps with pauses, written once for both clients.

A plan yields an operation and is sent its answer, or yields seconds to wait. What goes wrong
with a step, cancellation included, is raised at its ``yield``, so that a plan can tidy up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from headrace.contract.op import Op

T = TypeVar("T")

Plan = Generator[Op[Any] | float, Any, T]
