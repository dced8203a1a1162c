"""A daemon of the default install beside a lab: it may look at everything, and changes nothing."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.faults.recording_proxy import Certified, Recorder
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product


@contextmanager
def unchanged(*workers: str, tls: Certified | None = None) -> Iterator[list[Recorder]]:
    """What stands between a daemon and these workers. A LabError in the end if that daemon, which
    nobody told to, has asked for a change, or has asked one of them nothing at all.
    """
    with ExitStack() as stack:
        recorders = [stack.enter_context(Recorder(worker, tls)) for worker in workers]
        yield recorders
    if changes := [change for recorder in recorders for change in recorder.changes()]:
        raise LabError(f"the daemon asked for changes: {changes}")
    if not all(recorder.exchanges() for recorder in recorders):
        raise LabError("a worker was asked nothing, which proves nothing")


@contextmanager
def onlooker(
    lab: Lab, directory: Path, *, extra: str, connect_extra: str
) -> Iterator[tuple[Product, Recorder]]:
    """A daemon at work, held to unchanged() in the end; it may be killed and started again."""
    with unchanged(lab.connect_urls[0]) as (recorder,):
        product = Product(
            lab,
            directory=directory,
            port=free_port(),
            extra=extra,
            connect_extra=connect_extra,
            connect_url=recorder.url,
        )
        try:
            product.start_daemon()
            yield product, recorder
        finally:
            product.stop()
