"""How the tests are spread over the processes of ``pytest -n 2``."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# What needs Spark is one piece: a second session would take the time that a second process gives.
SPARK = (
    "tests/spark/",
    "tests/pipelines/",
    "tests/project/test_documents.py",
    "tests/faults/test_pipeline_kills.py",
)
LONG = ("spark", "tests/mutants/", "tests/faults/", "tests/interleaving/", "tests/state/")


class Spreading(LoadScopeScheduling):
    """Gives a file, or one of its classes, to whoever is free.

    The long ones go first, so that in the end nobody waits for the other.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = min(self.workqueue, key=_rank)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    return next((rank for rank, place in enumerate(LONG) if scope.startswith(place)), len(LONG))
