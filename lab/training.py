"""
One short run of the pipeline, for the archive of what Spark loads in such a run (classes.py).

Called by `python -m lab classes`.
"""

from lab import classes
from lab.commits import Commits
from lab.history_kills import RATE_PER_S, config_of
from lab.killing import bed
from lab.options import LabOptions
from lab.ports import free_port
from lab.processes import Child, gone
from lab.product import PIPELINE_S_MAX, Product
from lab.program import EXPORTER
from lab.waiting import until

COMMITS = 300
# Java lays the archive out when Python has ended.
LAID_OUT_S_MAX = 180.0


def train() -> None:
    """Make the archive, unless it is there. Raises LabError."""
    if classes.spark_archive().exists():
        return
    with (
        bed("training", LabOptions(connectors=False, ports="free")) as (lab, directory),
        classes.training() as options,
    ):
        commits = Commits(lab, offsets="offsets", syncs="syncs", rate_per_s=RATE_PER_S)
        with commits:
            commits.await_acknowledged(COMMITS)
        config = config_of(lab, commits)
        product = Product(lab, directory=directory, port=free_port(), config=config)
        verb = ("history", "run", "--available-now", "--config", str(product.config))
        command = ("env", f"SPARK_SUBMIT_OPTS={options}", *EXPORTER, *verb)
        run = Child("run", command, directory=directory)
        run.start()
        group = run.pid
        run.expect_success(timeout_s=PIPELINE_S_MAX)
        if group is not None:
            until("the archive laid out", lambda: gone(group), timeout_s=LAID_OUT_S_MAX)
