"""What the YAML file may say of remedies. Read by shape.py.

What is not here is fixed (exporter/remedy/model/policy.py and its guards): a knob is a promise that
somebody needs another value, and that any value of it is safe.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import Field

from exporter.config.section import Section
from exporter.config.types import Days, Duration, JavaClass, Name, Selector, TimeOfDay, Topic, Zone

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Harmful = Literal[
    "recopy",
    "restart_loop",
    "poison_suspected",
    "rewound",
    "mm2_topic_recreated",
    "mm2_position_ahead",
    "remnant_offsets",
    "starts_from_scratch",
]
_HARMFUL: Final[tuple[Harmful, ...]] = ("recopy", "restart_loop")


class Auto(Section):
    """Connectors for which something may be done without asking."""

    connect: Name
    """A name under connect."""
    connectors: list[Selector] = Field(min_length=1)
    """Whole names; * stands for any characters. One that names nothing but * may mean everything,
    and needs i_understand."""
    actions: list[Literal["restart_failed", "stop", "skip_one"]] = Field(min_length=1)
    """What may be done by itself. Each only after it was once approved by a person for the
    connector and was a success."""
    unmanaged: bool = False
    """No operator but one that `strimzi` names, and no GitOps tool, reverts these connectors. The
    daemon cannot detect that; without true it needs an approval."""
    i_understand: bool = False
    """Every connector of the cluster may be meant."""


class Repeat(Section):
    """How often the same failure at the same position makes it more than an accident."""

    failures: int = Field(default=3, ge=2)
    """Once is an accident, twice may be the same one."""
    span_s: Duration = Field(default=600.0, ge=0.0)
    """Between the first and the last: what passes by itself has passed by then."""
    restarts: int = Field(default=2, ge=0)
    """Restarts in between, by any client: a restart fixes everything that is not poison."""


class Budgets(Section):
    """How many records may be skipped, other than by an operator's own plan. What is
    above is a reason to look, not to go on: the breaker opens.
    """

    connector_hour: int = Field(default=3, ge=0)
    """Of one connector."""
    connector_day: int = Field(default=10, ge=0)
    """Of one connector."""
    connector_week: int = Field(default=30, ge=0)
    """Of one connector."""
    fleet_hour: int = Field(default=10, ge=0)
    """Of all."""
    fleet_day: int = Field(default=50, ge=0)
    """Of all."""


class Blast(Section):
    """How many connectors may be in remediation at once; one that waits for a person is."""

    per_connect: int = Field(default=1, ge=1)
    """In one Connect cluster: a stop and a resume each cost it a rebalance."""
    total: int = Field(default=3, ge=1)
    """In all Connect clusters: a failure of more is not for remediation."""


class Window(Section):
    """A stretch of a day that comes again each week."""

    days: list[Day] = Field(default_factory=lambda: list(get_args(Day)), min_length=1)
    """On which it begins."""
    start: TimeOfDay
    """HH:MM, in quotes."""
    end: TimeOfDay
    """HH:MM, in quotes; on the next day where it is not after start."""
    zone: Zone = "UTC"
    """A name such as Europe/Berlin; its clock changes are followed."""


class Maintenance(Section):
    """When nothing is planned or begun. What has begun by then is finished."""

    deny: list[Window] = Field(default_factory=list)
    """Not in these. Wins over only_in."""
    only_in: list[Window] = Field(default_factory=list)
    """In these and at no other time; empty means at any."""


class Quarantine(Section):
    """Where a record is copied to before it is skipped: a topic, or files under state_dir. What is
    too large for the topic becomes a file.
    """

    kafka: Name | None = None
    """A name under kafka: the cluster that has the topic. Without one there are files only, which
    are no safer than this machine's disk."""
    topic: Topic = "offsetwatch.quarantine"
    """Made at the first copy if it is not there. One that is compacted, or keeps records for less
    long than is said here, is refused."""
    replication_factor: int | None = Field(default=None, ge=1)
    """Of a topic that is made: 3 if nothing is said, or as many as there are brokers."""
    retention_days: Days | None = Field(default=None, ge=7.0)
    """For ever if nothing is said. A copy is the only one once the record has gone from its own
    topic."""


class KafkaJournal(Section):
    """High availability: the journal is a topic, and of several daemons with the same section one
    acts. See docs/high-availability.md.
    """

    kafka: Name
    """A name under kafka: the cluster that has the topic."""
    topic: Topic = "offsetwatch-journal"
    """One partition that keeps every record for ever; `offsetwatch journal create` makes it, and
    nothing else does. The consumer group TOPIC-leader and the transactional.id TOPIC-0 belong to
    it."""
    replication_factor: int = Field(default=3, ge=1)
    """A topic with fewer replicas is refused."""
    min_insync_replicas: int = Field(default=2, ge=1)
    """A topic that asks for fewer is refused: a record must not be lost with one broker."""
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """The name of this replica that the others report while it leads, best the address of its
    control listener. Default: the host's name."""
    session_timeout_s: Duration = Field(default=10.0, ge=0.5, le=300.0)
    """A leader that gives no sign of life for so long is followed by another one. The brokers set
    bounds of their own (group.min.session.timeout.ms, 6 s by default)."""


class Remedy(Section):
    """What may be done about what is found, and by whom it has to be approved."""

    mode: Literal["observe", "propose", "auto"] = "observe"
    """observe reports what would be done, propose waits for an approval, auto acts without one
    where auto allows it and proposes everywhere else."""
    second_person: bool = True
    """Who has a plan made does not approve it. false: may approve it as well, where one operator is
    on call alone; every plan shows it."""
    auto: list[Auto] = Field(default_factory=list)
    """Empty means for none."""
    skip_safe_sinks: list[JavaClass] = Field(default_factory=list)
    """Classes of sink connectors, as in connector.class, that have written a record when put()
    returns and go on from their group's offset; beside those that are known. Those that are known
    not to cannot be named."""
    sink_data_errors: dict[JavaClass, list[JavaClass]] = Field(default_factory=dict)
    """By class of sink connector: the exceptions by which its put() says that a record is bad, and
    by which it never says that the target is down."""
    repeat: Repeat = Repeat()
    """Before a record is taken for poison."""
    alert_before_s: Duration = Field(default=900.0, ge=0.0)
    """How long what is wrong was shown to people before anything is done by itself."""
    start_grace_s: Duration = Field(default=600.0, ge=0.0)
    """After a start nothing is planned for so long: what looks new then is only new to us."""
    cool_down_s: Duration = Field(default=900.0, ge=0.0)
    """How long nothing is done with a connector after a plan for it has ended."""
    budgets: Budgets = Budgets()
    """Of skipped records."""
    blast: Blast = Blast()
    """Of connectors."""
    quarantine: Quarantine = Quarantine()
    """Of skipped records."""
    journal: KafkaJournal | None = None
    """None: a file in state_dir, for one daemon that acts alone."""
    stop_total_s: Duration = Field(default=180.0, ge=60.0, le=900.0)
    """By when a connector that was stopped to skip a record is on its way up again. Stopping takes
    Connect seconds, and nothing is altered before it was quiet for 15 s."""
    probation_s: Duration = Field(default=120.0, ge=0.0)
    """How long a connector has to run past a skipped record before that was a success."""
    maintenance: Maintenance = Maintenance()
    """Freezes."""
    kill_switch: str = Field(default="/run/offsetwatch/STOP", min_length=1)
    """While this file is there, nothing is begun and nothing is altered."""
    stop_on: list[Harmful] = Field(default_factory=lambda: list(_HARMFUL))
    """Findings for which the connector is stopped: each further minute does harm."""
