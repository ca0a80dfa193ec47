"""How the tests are distributed over the processes of ``pytest -n 2``."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# All tests with Spark are one piece: a second session would cost the time that a second process gains.
SPARK = (
    "tests/spark/",
    "tests/pipelines/",
    "tests/project/test_documents.py",
    "tests/faults/test_pipeline_kills.py",
)
LONG = ("spark", "tests/mutants/", "tests/faults/", "tests/interleaving/", "tests/state/")


class LongestFirst(LoadScopeScheduling):
    """Gives a file, or one of its classes, to the next free process.

    The long ones go first, so that at the end no process waits long for the other.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A process that crashed gives back also what it has done: nothing would follow on that.
        for scope in [scope for scope, unit in self.workqueue.items() if all(unit.values())]:
            del self.workqueue[scope]
        if not self.workqueue:
            node.shutdown()
            return
        longest = min(self.workqueue, key=_rank)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    return next((rank for rank, place in enumerate(LONG) if scope.startswith(place)), len(LONG))
