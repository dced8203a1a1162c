"""Schema of the section `remedy`, which root.py includes.

All else is fixed (exporter/offsetwatch/remedy/model/policy.py and the guards): a setting promises
that some users need another value, and that any value of it is safe.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import Field

from offsetwatch.config.schema.types import (
    ConfigSection,
    Days,
    Duration,
    JavaClass,
    Name,
    Selector,
    TimeOfDay,
    Topic,
    Zone,
)

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
HarmfulFinding = Literal[
    "recopy",
    "restart_loop",
    "poison_suspected",
    "rewound",
    "mm2_topic_recreated",
    "mm2_position_ahead",
    "remnant_offsets",
    "starts_from_scratch",
]
_DEFAULT_STOP_ON: Final[tuple[HarmfulFinding, ...]] = ("recopy", "restart_loop")


class AutoRuleConfig(ConfigSection):
    """Connectors for which something may be done without asking."""

    connect: Name
    """A name under connect."""
    connectors: list[Selector] = Field(min_length=1)
    """Whole names; * matches any characters. A pattern of only * may match everything, and needs
    i_understand."""
    actions: list[Literal["restart_failed", "stop", "skip_one"]] = Field(min_length=1)
    """Actions without approval. Each only after it once succeeded for the connector with an
    operator's approval."""
    unmanaged: bool = False
    """No operator but one that `strimzi` names, and no GitOps tool, reverts these connectors. The
    daemon cannot detect that; without true it needs an approval."""
    i_understand: bool = False
    """Confirms that a pattern may match every connector of the cluster."""


class RepeatedFailureConfig(ConfigSection):
    """Limits above which the same failure at the same position is more than an accident."""

    failures: int = Field(default=3, ge=2)
    """Failures of the same kind at the same position."""
    span_s: Duration = Field(default=600.0, ge=0.0)
    """The shortest time between the first and the last failure: a passing fault has passed by
    then."""
    restarts: int = Field(default=2, ge=0)
    """Restarts in between, by any client: a restart fixes everything that is not poison."""


class SkipBudgetsConfig(ConfigSection):
    """Limits of skipped records, other than by an operator's own plan. Beyond a limit the breaker
    opens: an operator has to inspect the connector.
    """

    connector_hour: int = Field(default=3, ge=0)
    """Skips of one connector in an hour."""
    connector_day: int = Field(default=10, ge=0)
    """Skips of one connector in a day."""
    connector_week: int = Field(default=30, ge=0)
    """Skips of one connector in a week."""
    fleet_hour: int = Field(default=10, ge=0)
    """Skips of all connectors in an hour."""
    fleet_day: int = Field(default=50, ge=0)
    """Skips of all connectors in a day."""


class BlastRadiusConfig(ConfigSection):
    """Limits of connectors in remediation at once; one that waits for an operator counts."""

    per_connect: int = Field(default=1, ge=1)
    """In one Connect cluster: a stop and a resume each cost it a rebalance."""
    total: int = Field(default=3, ge=1)
    """In all Connect clusters: a failure of more is not for remediation."""


class MaintenanceWindowConfig(ConfigSection):
    """A stretch of a day that comes again each week."""

    days: list[Day] = Field(default_factory=lambda: list(get_args(Day)), min_length=1)
    """The days on which the window begins."""
    start: TimeOfDay
    """HH:MM, in quotes."""
    end: TimeOfDay
    """HH:MM, in quotes; on the next day if it is not after start."""
    zone: Zone = "UTC"
    """A time zone such as Europe/Berlin, with its clock changes."""


class MaintenanceConfig(ConfigSection):
    """Windows in which nothing is planned or begun. A plan that has begun by then is finished."""

    deny: list[MaintenanceWindowConfig] = Field(default_factory=list)
    """Windows in which no plan begins. They win over only_in."""
    only_in: list[MaintenanceWindowConfig] = Field(default_factory=list)
    """The only windows in which a plan begins; an empty list allows any time."""


class QuarantineConfig(ConfigSection):
    """Copies of records that are skipped: in a topic, or in files under state_dir. A record that is
    too large for the topic becomes a file.
    """

    kafka: Name | None = None
    """A name under kafka: the cluster of the topic. Without it copies are files, which are as safe
    as this machine's disk."""
    topic: Topic = "offsetwatch.quarantine"
    """The topic; it is created at the first copy. A compacted topic, or one with a shorter
    retention than retention_days, is refused."""
    replication_factor: int | None = Field(default=None, ge=1)
    """Replicas of a topic that is created. Default: 3, or the number of brokers if that is less."""
    retention_days: Days | None = Field(default=None, ge=7.0)
    """Retention of a topic that is created. Default: unlimited. A copy is the only one once its own
    topic has deleted the record."""


class KafkaJournal(ConfigSection):
    """High availability: the journal is a topic, and of several daemons with the same section one
    acts. See docs/high-availability.md.
    """

    kafka: Name
    """A name under kafka: the cluster of the topic."""
    topic: Topic = "offsetwatch-journal"
    """A topic of one partition with unlimited retention; only `offsetwatch journal create` creates
    it. The consumer group TOPIC-leader and the transactional.id TOPIC-0 belong to it."""
    replication_factor: int = Field(default=3, ge=1)
    """Replicas of the topic; one with fewer is refused."""
    min_insync_replicas: int = Field(default=2, ge=1)
    """min.insync.replicas of the topic; a lower one is refused, since the loss of one broker must
    not lose a record."""
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """The name of this replica that the others report while it leads, best the address of its
    control listener. Default: the host's name."""
    session_timeout_s: Duration = Field(default=10.0, ge=0.5, le=300.0)
    """Time without a heartbeat after which another replica replaces the leader. The brokers have
    bounds of their own (group.min.session.timeout.ms, 6 s by default)."""


class RemedyConfig(ConfigSection):
    """Actions that findings may lead to, and the approvals that they need."""

    mode: Literal["observe", "propose", "auto"] = "observe"
    """observe reports what would be done, propose waits for an approval, auto acts without one
    where auto allows it and proposes everywhere else."""
    second_person: bool = True
    """true: an operator cannot approve their own plan. false: the same operator can, for one who is
    on call alone; every plan shows it."""
    auto: list[AutoRuleConfig] = Field(default_factory=list)
    """Connectors and actions without approval. Default: none."""
    skip_safe_sinks: list[JavaClass] = Field(default_factory=list)
    """Further classes of sink connectors, as in connector.class, that have written a record when
    put() returns, and continue from their group's offset. Classes that are known not to do so are
    refused."""
    sink_data_errors: dict[JavaClass, list[JavaClass]] = Field(default_factory=dict)
    """By class of sink connector: exceptions of put() that always mean a bad record, and never an
    unavailable target. The JDBC sinks of Aiven, Confluent and Debezium have theirs by default (of
    SQLState 22 and 23). Classes of sinks for which no skip is safe are refused."""
    repeat: RepeatedFailureConfig = RepeatedFailureConfig()
    """When a failing record is poison."""
    alert_before_s: Duration = Field(default=900.0, ge=0.0)
    """How long a problem was reported before anything is done without approval."""
    start_grace_s: Duration = Field(default=600.0, ge=0.0)
    """Time after a start without a new plan: old problems look new then."""
    cool_down_s: Duration = Field(default=900.0, ge=0.0)
    """How long nothing is done with a connector after a plan for it has ended."""
    budgets: SkipBudgetsConfig = SkipBudgetsConfig()
    """Limits of skipped records."""
    blast: BlastRadiusConfig = BlastRadiusConfig()
    """Limits of connectors in remediation at once."""
    quarantine: QuarantineConfig = QuarantineConfig()
    """Where copies of skipped records are stored."""
    journal: KafkaJournal | None = None
    """A journal in a Kafka topic, for several replicas. Default: a file in state_dir, for one
    daemon."""
    stop_total_s: Duration = Field(default=180.0, ge=60.0, le=900.0)
    """The longest time for which a connector is stopped to skip a record. A stop takes Connect
    seconds, and nothing is altered until the connector was quiet for 15 s."""
    probation_s: Duration = Field(default=120.0, ge=0.0)
    """How long a connector must run past a skipped record before the skip counts as a success."""
    maintenance: MaintenanceConfig = MaintenanceConfig()
    """Maintenance windows."""
    kill_switch: str = Field(default="/run/offsetwatch/STOP", min_length=1)
    """While this file exists, no plan begins and nothing is altered."""
    stop_on: list[HarmfulFinding] = Field(default_factory=lambda: list(_DEFAULT_STOP_ON))
    """Findings for which the connector is stopped: each further minute does harm."""


# put() returns once everything is written, nothing overrides preCommit(), nothing seeks.
SAFE_SINK_CLASSES: Final = (
    "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "FileStreamSinkConnector",
    "FileStreamSink",
    "io.confluent.connect.jdbc.JdbcSinkConnector",
    "io.aiven.connect.jdbc.JdbcSinkConnector",
)
# JDBC's exceptions for SQLState 22 (data) and 23 (integrity constraints), and MySQL's for 22.
# classify/error_texts.toml has the texts of drivers that throw no such class.
_JDBC_DATA_ERRORS: Final = (
    "java.sql.SQLDataException",
    "java.sql.SQLIntegrityConstraintViolationException",
    "com.mysql.cj.jdbc.exceptions.MysqlDataTruncation",
)
SINK_DATA_ERRORS: Final = {
    "io.aiven.connect.jdbc.JdbcSinkConnector": _JDBC_DATA_ERRORS,
    "io.confluent.connect.jdbc.JdbcSinkConnector": _JDBC_DATA_ERRORS,
    "io.debezium.connector.jdbc.JdbcSinkConnector": (
        *_JDBC_DATA_ERRORS,
        "org.hibernate.exception.ConstraintViolationException",
        "org.hibernate.exception.DataException",
    ),
}
# They resume from what they find in the target, or commit before it is written: an offset that is
# moved is ignored, or does not show what was delivered. By simple name, for every vendor.
UNSAFE_SINK_NAMES: Final = (
    "AivenKafkaConnectS3Sink",
    "AzureBlobStorageSink",
    "BigQuerySink",
    "BigQueryStorageSink",
    "ClickHouseSink",
    "ElasticsearchSink",
    "GcsSink",
    "Hdfs2Sink",
    "Hdfs3Sink",
    "HdfsSink",
    "IcebergSink",
    "OpenSearchSink",
    "OpensearchSink",
    "S3Sink",
    "SnowflakeSink",
    "SnowflakeStreamingSink",
)


def is_unsafe_sink(class_name: str) -> bool:
    """Return whether no configuration can make a skip safe for this class.

    Connect accepts aliases: the simple name, with or without `Connector`.
    """
    return class_name.rpartition(".")[2].removesuffix("Connector") in UNSAFE_SINK_NAMES
