"""Spark session with every setting that the pipeline relies on, created here only.

It also translates errors of Spark and of the JVM: callers get only HistoryError.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import offsetwatch
from offsetwatch.errors import HistoryError, SparkTerminated
from offsetwatch.history.spark.jars import spark_jars

SPARK_LINE = "4.2"  # what the jars in pom.xml are built for
CAUSES_MAX = 32
CAUSE_CHARS_MAX = 600

_PACKAGE_ROOT = Path(offsetwatch.__file__).resolve().parent.parent
_LOG4J = Path(__file__).parents[1] / "log4j2.properties"

_COMMON_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # Default INT96, which carries no statistics and which newer readers only tolerate.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Options by these names are hidden in plans, logs and errors. Beside Spark's own words: what
    # security.py gives its Kafka client.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore",
    # SPARK-58241: with it, an Arrow UDF over a columnar scan can hang for ever.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Not set: spark.sql.execution.arrow.maxBytesPerBatch, 64 MiB. Spark looks after each row how
    # far it has come, which is a quarter of the JVM's work (`make profile`); but nothing else
    # bounds what ten thousand offsets of a megabyte take.
    # By default 10 000 tasks for one listing and 50 for the state of a table: minutes of nothing.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Stopping a stream waits for its thread; default is for ever.
    "spark.sql.streaming.stopTimeout": "60s",
}
# A class of each jar that is asked for by name.
_JAR_CLASSES = {
    "Delta": _COMMON_SETTINGS["spark.sql.extensions"],
    "Kafka source": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
}
# One machine: a shuffle partition per core or two, and nobody but us to talk to.
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def spark_session(*, master: str, heap: str, short: bool) -> Iterator[SparkSession]:
    """Yield a session with the pipeline's settings; stop it at exit, unless it existed before.

    master   used only if spark-submit, the environment and spark-defaults decide nothing
    heap     of the driver, which on `local[*]` does all the work; spark-submit's own wins too
    short    for runs of seconds to minutes: compile quickly rather than well
    """
    if not pyspark.__version__.startswith(f"{SPARK_LINE}."):
        message = f"pyspark {pyspark.__version__} does not go with jars for Spark {SPARK_LINE}"
        raise HistoryError(message)
    existing = _find_active_session()
    if existing is not None:
        yield existing
        return
    if not _is_submitted(os.environ):
        _refuse_without_name(os.getuid())
    # Spark makes a warehouse folder in the current one, for tables we have none of.
    with tempfile.TemporaryDirectory(prefix="offsetwatch-warehouse-") as warehouse:
        with translate_spark_errors("Spark did not start"):
            session = _create(master=master, heap=heap, short=short, warehouse=Path(warehouse))
        try:
            _refuse_without_jars(session)
            yield session
        finally:
            # Nothing is left to be stopped of a JVM that is gone, as the kernel's killer of
            # processes leaves it; that it is gone was said by whoever wanted something of it.
            with suppress(Py4JNetworkError, ConnectionError):
                session.stop()


@contextmanager
def translate_spark_errors(what: str) -> Iterator[None]:
    """Translate errors of Spark, Delta, Kafka's client and the JVM to HistoryError with a cause."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as exc:
        # A Py4JError without a trace: no JVM answered.
        unanswered = type(exc) is Py4JError and "Trace:" not in str(exc)
        if unanswered or isinstance(exc, Py4JNetworkError | ConnectionError):
            raise SparkTerminated(f"{what}: Spark's JVM does not answer any more") from exc
        raise HistoryError(f"{what}: {root_cause(exc)}") from exc


def root_cause(exc: BaseException) -> str:
    """Return the innermost cause, in one line: Spark wraps an error up to ten times."""
    texts = [str(java.toString()) for java in _java_causes(exc)]
    return _format_one_line(texts[-1] if texts else str(exc))


def collect_error_text(failure: HistoryError) -> str:
    """Return all messages of Spark and the JVM, from the outermost to the innermost."""
    texts = [str(failure)]
    cause = failure.__cause__
    while cause is not None:
        texts += [str(cause), *(str(java.toString()) for java in _java_causes(cause))]
        cause = cause.__cause__
    return "\n".join(texts)


def _java_causes(exc: BaseException) -> Iterator[Any]:
    java: Any = getattr(exc, "_origin", None)
    if isinstance(exc, Py4JJavaError):
        java = exc.java_exception
    for _ in range(CAUSES_MAX):
        if java is None:
            return
        yield java
        java = java.getCause()


def _format_one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("SQLSTATE")]
    if not lines:
        return "no reason given"
    if "Traceback (most recent call last)" in text:
        return lines[-1][:CAUSE_CHARS_MAX]  # a Python worker's: what was raised stands last
    # Spark's Kafka source ends a long text, with advice to lose data, in what really happened.
    reasons = [line for line in lines[1:] if line.startswith("Reason:")]
    return " ".join([lines[0], *reasons])[:CAUSE_CHARS_MAX]


def _find_active_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _refuse_without_name(user: int) -> None:
    """Raise HistoryError if the user has no name on this system.

    Java takes its user's home and Hadoop that user's name from the system. Without them Spark ends
    with an unrelated stack trace.
    """
    try:
        pwd.getpwuid(user)
    except KeyError:
        message = f"user {user} has no name on this system, and Spark does not start without one"
        raise HistoryError(message) from None


def _create(*, master: str, heap: str, short: bool, warehouse: Path) -> SparkSession:
    # A URI, because a bare path would be one of HDFS where that is Hadoop's default.
    settings = {**_COMMON_SETTINGS, "spark.sql.warehouse.dir": warehouse.as_uri()}
    if not _is_submitted(os.environ):
        # A JVM that runs already has its class path, and this setting would only replace --jars.
        settings["spark.jars"] = ",".join(str(jar) for jar in spark_jars())
    if _is_master_decided(os.environ):
        # As good a guess as any: the driver's image or mount is often the executors' too.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        # Workers must be this very interpreter, whatever `python3` is on the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings |= {
            **_LOCAL_SETTINGS,
            "spark.master": master,
            "spark.driver.memory": heap,
            "spark.driver.extraJavaOptions": (
                f"{'-XX:TieredStopAtLevel=1 ' if short else ''}-XX:+UseSerialGC "
                f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
            ),
            # The package may be importable here by sys.path alone.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(
                filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH")))
            ),
        }
    builder = SparkSession.builder.appName("offsetwatch-history")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _keep_interrupt_handler():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Plain paths are folders, as they are for all that reads the tables without Spark. Of the
    # session alone: YARN needs its own default for what it stages.
    session.conf.set("fs.defaultFS", "file:///")
    return session


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Restore the SIGINT handler, which Spark replaces: Ctrl-C would not stop the run in order."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _refuse_without_jars(session: SparkSession) -> None:
    """Raise HistoryError if Delta or the Kafka source is not on Spark's class path.

    Under spark-submit its caller supplies the jars. Without Delta's, Spark only warns, and the
    errors that follow explain nothing.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no public way to ask
    loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    missing = [jar for jar, name in _JAR_CLASSES.items() if not loadable(name)]
    if missing:
        raise HistoryError(
            f"Spark has no {' and no '.join(missing)} on its class path: give spark-submit the "
            "jars that `offsetwatch history package` copies, with --jars"
        )


def _is_submitted(environ: Mapping[str, str]) -> bool:
    """Check whether spark-submit started this process, whose JVM then runs already."""
    return "PYSPARK_GATEWAY_PORT" in environ


def _is_master_decided(environ: Mapping[str, str]) -> bool:
    """Check whether the caller of this process has decided where Spark runs.

    If not spark-submit, the submit arguments, MASTER and spark-defaults.conf count, as they do for
    spark-submit itself.
    """
    if _is_submitted(environ) or environ.get("MASTER"):
        return True
    arguments = environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "--master" in arguments or "spark.master" in arguments:
        return True
    home = environ.get("SPARK_HOME")
    conf = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    defaults = Path(conf) / "spark-defaults.conf" if conf else None
    if defaults is None or not defaults.is_file():
        return False
    lines = defaults.read_text(encoding="utf-8").splitlines()
    return any(line.split("#")[0].strip().startswith("spark.master") for line in lines)
