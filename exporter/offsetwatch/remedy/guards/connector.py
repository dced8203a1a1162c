"""Guards about the connector and its log, now and when the plan was made.

guards.evaluate calls each with the facts that its parameters name. The first paragraph of its
docstring is its rule on docs/guards.md.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.formatting import format_count
from offsetwatch.model.row_positions import format_log_offset
from offsetwatch.remedy.model.guard_answer import GuardReply, Stage, allow_if, deny
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import Policy, SinkProfile, classify_sink

VERSION_MIN: Final = (3, 6)  # KIP-875: offsets can be altered, and stopped is a state
SETTLE_S: Final = (
    15.0  # three times what Connect gives a task to stop, whose last commit may follow
)
FRESH_S: Final = 60.0  # the rhythm of REST polls, with room for a slow one
FRESH_AT_ALTER_S: Final = 10.0  # nothing older is believed when it counts
AHEAD_S_MAX: Final = 1.0  # what was read after now was read by a clock that has been set back since
INTERNAL_CONNECTORS: Final = frozenset({"MirrorHeartbeat", "MirrorCheckpoint"})
_ALLOWED_STATES: Final = {
    Action.SKIP_ONE: frozenset({"running"}),
    Action.STOP: frozenset({"running", "failed"}),
    Action.RESTART_FAILED: frozenset({"running", "failed"}),
}


def _shorten_class_name(class_name: str) -> str:
    """Return the simple class name without `Connector`; Connect accepts either as an alias."""
    return class_name.rpartition(".")[2].removesuffix("Connector")


def _check_age(now: float, read_at: float, stage: Stage) -> tuple[str, bool]:
    most_s = FRESH_AT_ALTER_S if stage is Stage.ALTER else FRESH_S
    age_s = now - read_at
    return f"read {age_s:.1f} s ago; {most_s:.0f} s are allowed", -AHEAD_S_MAX <= age_s <= most_s


def version(*, connect_version: tuple[int, ...]) -> GuardReply:
    """Connect is 3.6 or newer."""
    said = f"Connect is {'.'.join(str(part) for part in connect_version) or 'of no version'}"
    return allow_if(said, if_=connect_version >= VERSION_MIN)


def offsets_api(*, offsets_api: bool) -> GuardReply:
    """Connect returns the connector's offsets."""
    can = "can" if offsets_api else "cannot"
    return allow_if(f"its offsets {can} be read", if_=offsets_api)


def same_connect_cluster(*, identity_planned: str, identity_now: str) -> GuardReply:
    """The Connect cluster that answers is the one that the configuration means."""
    same = identity_planned == identity_now
    said = f"this is {identity_now}" + ("" if same else f", not {identity_planned}")
    return allow_if(said, if_=same)


def follows_its_group(*, policy: Policy, class_name: str) -> GuardReply:
    """A sink that stores its position elsewhere is not moved by moving its group."""
    known = classify_sink(policy, class_name)
    said = (
        f"its group's offset is {known.value} as the position of a "
        f"{_shorten_class_name(class_name)}"
    )
    return allow_if(said, if_=known is not SinkProfile.UNSAFE)


def writes_before_it_commits(*, policy: Policy, class_name: str) -> GuardReply:
    """Without approval a record is skipped only for sinks that are known to write before they
    commit.
    """
    known = classify_sink(policy, class_name)
    said = f"{class_name} is {known.value}: see remedy.skip_safe_sinks"
    return allow_if(said, if_=known is SinkProfile.SAFE)


def wanted_running(*, action: Action, state: str) -> GuardReply:
    """A connector that an operator paused or stopped is not changed, and a rebalance is awaited."""
    return allow_if(f"its state is {state}", if_=state in _ALLOWED_STATES.get(action, frozenset()))


def not_internal(*, class_name: str) -> GuardReply:
    """MirrorMaker's heartbeat and checkpoint connectors have no progress to restore."""
    return allow_if(
        f"it is a {_shorten_class_name(class_name)}",
        if_=_shorten_class_name(class_name) not in INTERNAL_CONNECTORS,
    )


def first_of_the_batch(*, next_now: int, poison: int) -> GuardReply:
    """For a sink the record is the very next one: a sink commits by batches, and the records before
    it may not be written yet.
    """
    return allow_if(
        f"it reads on at {format_log_offset(next_now)}, and the record is "
        f"{format_log_offset(poison)}",
        if_=next_now == poison,
    )


def first_that_exists(*, first_existing: int, poison: int) -> GuardReply:
    """For MirrorMaker and other sources the record is the first that exists after the stored
    offset.
    """
    said = (
        f"the first record from there is {format_log_offset(first_existing)}, and the record is "
        f"{format_log_offset(poison)}"
    )
    return allow_if(said, if_=first_existing == poison)


def one_step(
    *, next_now: int, next_after: int, poison: int, first_existing: int | None
) -> GuardReply:
    """The position moves past the record and over no other record."""
    said = (
        f"from {format_log_offset(next_now)} to {format_log_offset(next_after)}, past the record "
        f"at {format_log_offset(poison)}"
    )
    alone = poison in {next_now, first_existing}
    return allow_if(said, if_=next_now <= poison and next_after == poison + 1 and alone)


def in_the_log(
    *,
    now: float,
    stage: Stage,
    next_now: int,
    next_after: int,
    earliest: int,
    readable_end: int,
    log_end: int,
    bounds_read_at: float,
) -> GuardReply:
    """The position is in the log before and after, read just now: beyond the log end a connector
    would read everything again.
    """
    aged, fresh = _check_age(now, bounds_read_at, stage)
    said = (
        f"from {format_log_offset(next_now)} to {format_log_offset(next_after)} in a log from "
        f"{format_log_offset(earliest)} to {format_log_offset(log_end)}, readable to "
        f"{format_log_offset(readable_end)}, {aged}"
    )
    return allow_if(
        said, if_=fresh and earliest <= next_now < next_after <= readable_end <= log_end
    )


def same_topic(*, topic_id_planned: str, topic_id_now: str) -> GuardReply:
    """The topic is the one that was read, and was not recreated."""
    same = topic_id_planned == topic_id_now
    return allow_if("the topic is " + ("the same" if same else "another one"), if_=same)


def receipt(*, record_sha256: str, receipt_sha256: str) -> GuardReply:
    """The copy of the record was read back, and is identical."""
    same = receipt_sha256 == record_sha256 and record_sha256 != ""
    return allow_if("the copy read back is " + ("" if same else "not ") + "the record", if_=same)


def backup(*, backup_verified: bool) -> GuardReply:
    """All offsets of the connector were backed up and read back."""
    return allow_if("backed up" if backup_verified else "not backed up", if_=backup_verified)


def one_raw_key(*, raw_keys: int, key_canonical: bool) -> GuardReply:
    """The partition is stored under one key, the one that Connect would write: a task looks its
    offset up by bytes.
    """
    other = "" if key_canonical else ", and not the one that Connect would write over REST"
    return allow_if(
        f"stored under {format_count(raw_keys, 'key')}{other}", if_=raw_keys == 1 and key_canonical
    )


def read_just_now(*, now: float, stage: Stage, read_at: float) -> GuardReply:
    """The facts about the connector were read just now."""
    aged, fresh = _check_age(now, read_at, stage)
    return allow_if(aged, if_=fresh)


def views_agree(*, tail_behind: int, views_agree: bool) -> GuardReply:
    """The offsets topic was read to its end, and agrees with Connect."""
    if tail_behind:
        return deny(f"not read yet: {format_count(tail_behind, 'record')} of the offsets topic")
    return allow_if("tail and Connect " + ("agree" if views_agree else "differ"), if_=views_agree)


def fence(*, fence_planned: str, fence_now: str) -> GuardReply:
    """The stored offset is exactly the one that the plan was made for."""
    same = fence_planned == fence_now
    said = f"stored is {fence_now}" + ("" if same else f", and the plan was for {fence_planned}")
    return allow_if(said, if_=same)


def connector_stopped(*, state: str, tasks_now: int) -> GuardReply:
    """The connector is stopped and has no tasks."""
    said = f"its state is {state}, with {format_count(tasks_now, 'task')}"
    return allow_if(said, if_=state == "stopped" and tasks_now == 0)


def group_empty(*, group_members: int) -> GuardReply:
    """A sink's group has no members: a remaining member would commit over the new offset."""
    return allow_if(
        f"its group has {format_count(group_members, 'member')}", if_=group_members == 0
    )


def settled(*, quiet_s: float) -> GuardReply:
    """Nothing of the connector was written for 15 s: a task's last commit may follow its stop."""
    said = f"quiet for {quiet_s:.0f} s; {SETTLE_S:.0f} s are required"
    return allow_if(said, if_=quiet_s >= SETTLE_S)


def nobody_else(*, token_planned: str, token_now: str) -> GuardReply:
    """No other client has sent Connect a request for this connector since the plan was made."""
    same = token_planned == token_now
    return allow_if("no other client changed it" if same else "another client changed it", if_=same)


def same_config(*, config_planned: str, config_now: str) -> GuardReply:
    """Its configuration is the one that the plan was made for."""
    same = config_planned == config_now
    return allow_if("its configuration is " + ("the same" if same else "another one"), if_=same)


def same_incarnation(*, incarnation_planned: str, incarnation_now: str) -> GuardReply:
    """It is the same connector, and not a new one of its name."""
    same = incarnation_planned == incarnation_now
    return allow_if("it is " + ("the same" if same else "another one of its name"), if_=same)


def in_time(*, policy: Policy, now: float, stopped_at: float) -> GuardReply:
    """A connector that a plan stopped is restarted in time."""
    stopped_s = now - stopped_at
    said = f"stopped for {stopped_s:.0f} s; {policy.stop_total_s:.0f} s are allowed"
    return allow_if(said, if_=-AHEAD_S_MAX <= stopped_s < policy.stop_total_s)
