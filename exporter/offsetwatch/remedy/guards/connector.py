"""Guards about the connector and its log as they are, and as they were when the plan was made.

Each is asked by guards.py with the facts it names; the first sentence of its docstring is its law.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.model.guard_answer import Reply, Stage, denies, held
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import Policy, Profile, profile

VERSION: Final = (3, 6)  # KIP-875: offsets can be altered, and stopped is a state
SETTLE_S: Final = (
    15.0  # three times what Connect gives a task to stop, whose last commit may follow
)
FRESH_S: Final = 60.0  # the rhythm of REST polls, with room for a slow one
FRESH_AT_ALTER_S: Final = 10.0  # nothing older is believed when it counts
AHEAD_S: Final = 1.0  # what was read after now was read by a clock that has been set back since
INTERNAL: Final = frozenset({"MirrorHeartbeat", "MirrorCheckpoint"})
_MAY_RUN: Final = {
    Action.SKIP_ONE: frozenset({"running"}),
    Action.STOP: frozenset({"running", "failed"}),
    Action.RESTART_FAILED: frozenset({"running", "failed"}),
}


def _simple(class_name: str) -> str:
    """Connect takes aliases: the simple name, with or without `Connector`."""
    return class_name.rpartition(".")[2].removesuffix("Connector")


def _age(now: float, read_at: float, stage: Stage) -> tuple[str, bool]:
    most_s = FRESH_AT_ALTER_S if stage is Stage.ALTER else FRESH_S
    age_s = now - read_at
    return f"read {age_s:.1f} s ago; {most_s:.0f} s are allowed", -AHEAD_S <= age_s <= most_s


def version(*, connect_version: tuple[int, ...]) -> Reply:
    """Connect is 3.6 or newer."""
    said = f"Connect is {'.'.join(str(part) for part in connect_version) or 'of no version'}"
    return held(said, if_=connect_version >= VERSION)


def offsets_api(*, offsets_api: bool) -> Reply:
    """Connect returns the connector's offsets."""
    can = "can" if offsets_api else "cannot"
    return held(f"its offsets {can} be read", if_=offsets_api)


def same_place(*, identity_planned: str, identity_now: str) -> Reply:
    """The Connect cluster that answers is the one that the configuration means."""
    same = identity_planned == identity_now
    said = f"this is {identity_now}" + ("" if same else f", not {identity_planned}")
    return held(said, if_=same)


def follows_its_group(*, policy: Policy, class_name: str) -> Reply:
    """A sink that stores its position elsewhere is not moved by moving its group."""
    known = profile(policy, class_name)
    said = f"its group's offset is {known.value} as the position of a {_simple(class_name)}"
    return held(said, if_=known is not Profile.UNSAFE)


def writes_before_it_commits(*, policy: Policy, class_name: str) -> Reply:
    """Without approval a record is skipped only for sinks that are known to write before they
    commit.
    """
    known = profile(policy, class_name)
    said = f"{class_name} is {known.value}: see remedy.skip_safe_sinks"
    return held(said, if_=known is Profile.SAFE)


def opaque(*, by_person: bool) -> Reply:
    """If only the connector understands its offsets, only an operator says which offset is next."""
    said = "the next offset cannot be computed; an operator has to give it"
    return held(said, if_=by_person)


def wanted_running(*, action: Action, state: str) -> Reply:
    """A connector that an operator paused or stopped is not changed, and a rebalance is awaited."""
    return held(f"its state is {state}", if_=state in _MAY_RUN.get(action, frozenset()))


def not_internal(*, class_name: str) -> Reply:
    """MirrorMaker's heartbeat and checkpoint connectors have no progress to restore."""
    return held(f"it is a {_simple(class_name)}", if_=_simple(class_name) not in INTERNAL)


def first_of_the_batch(*, next_now: int, poison: int) -> Reply:
    """For a sink the record is the very next one: a sink commits by batches, and the records before
    it may not be written yet.
    """
    return held(f"it reads on at {next_now}, and the record is {poison}", if_=next_now == poison)


def first_that_exists(*, first_existing: int, poison: int) -> Reply:
    """For MirrorMaker the record is the first that exists after the stored offset."""
    said = f"the first record from there is {first_existing}, and the record is {poison}"
    return held(said, if_=first_existing == poison)


def one_step(*, next_now: int, next_wanted: int, poison: int, first_existing: int | None) -> Reply:
    """The position moves past the record and over no other record."""
    said = f"from {next_now} to {next_wanted}, past the record at {poison}"
    alone = poison in {next_now, first_existing}
    return held(said, if_=next_now <= poison and next_wanted == poison + 1 and alone)


def in_the_log(
    *,
    now: float,
    stage: Stage,
    next_now: int,
    next_wanted: int,
    earliest: int,
    readable_end: int,
    log_end: int,
    bounds_read_at: float,
) -> Reply:
    """The position is in the log before and after, read just now: beyond the log end a connector
    would read everything again.
    """
    aged, fresh = _age(now, bounds_read_at, stage)
    said = (
        f"from {next_now} to {next_wanted} in a log from {earliest} to {log_end}, readable to "
        f"{readable_end}, {aged}"
    )
    return held(said, if_=fresh and earliest <= next_now < next_wanted <= readable_end <= log_end)


def same_topic(*, topic_id_planned: str, topic_id_now: str) -> Reply:
    """The topic is the one that was read, and was not recreated."""
    same = topic_id_planned == topic_id_now
    return held("the topic is " + ("the same" if same else "another one"), if_=same)


def receipt(*, record_sha256: str, receipt_sha256: str) -> Reply:
    """The copy of the record was read back, and is identical."""
    same = receipt_sha256 == record_sha256 and record_sha256 != ""
    return held("the copy read back is " + ("" if same else "not ") + "the record", if_=same)


def backup(*, backup_verified: bool) -> Reply:
    """All offsets of the connector were backed up and read back."""
    return held("backed up" if backup_verified else "not backed up", if_=backup_verified)


def one_raw_key(*, raw_keys: int, key_canonical: bool) -> Reply:
    """The partition is stored under one key, the one that Connect would write: a task looks its
    offset up by bytes.
    """
    other = "" if key_canonical else ", and not the one that Connect would write over REST"
    return held(f"stored under {raw_keys} keys{other}", if_=raw_keys == 1 and key_canonical)


def read_just_now(*, now: float, stage: Stage, read_at: float) -> Reply:
    """The facts about the connector were read just now."""
    aged, fresh = _age(now, read_at, stage)
    return held(aged, if_=fresh)


def views_agree(*, tail_behind: int, views_agree: bool) -> Reply:
    """The offsets topic was read to its end, and agrees with Connect."""
    if tail_behind:
        return denies(f"{tail_behind} records of the offsets topic are not read yet")
    return held("tail and Connect " + ("agree" if views_agree else "differ"), if_=views_agree)


def fence(*, fence_planned: str, fence_now: str) -> Reply:
    """The stored offset is exactly the one that the plan was made for."""
    same = fence_planned == fence_now
    said = f"stored is {fence_now}" + ("" if same else f", and the plan was for {fence_planned}")
    return held(said, if_=same)


def stands_still(*, state: str, tasks_now: int) -> Reply:
    """The connector is stopped and has no tasks."""
    said = f"its state is {state}, with {tasks_now} tasks"
    return held(said, if_=state == "stopped" and tasks_now == 0)


def group_empty(*, group_members: int) -> Reply:
    """A sink's group has no members: a remaining member would commit over the new offset."""
    return held(f"its group has {group_members} members", if_=group_members == 0)


def settled(*, quiet_s: float) -> Reply:
    """Nothing of the connector was written for 15 s: a task's last commit may follow its stop."""
    said = f"quiet for {quiet_s:.0f} s; {SETTLE_S:.0f} s are required"
    return held(said, if_=quiet_s >= SETTLE_S)


def nobody_else(*, token_planned: str, token_now: str) -> Reply:
    """No other client has sent Connect a request for this connector since the plan was made."""
    same = token_planned == token_now
    return held("no other client changed it" if same else "another client changed it", if_=same)


def same_config(*, config_planned: str, config_now: str) -> Reply:
    """Its configuration is the one that the plan was made for."""
    same = config_planned == config_now
    return held("its configuration is " + ("the same" if same else "another one"), if_=same)


def same_incarnation(*, incarnation_planned: str, incarnation_now: str) -> Reply:
    """It is the same connector, and not a new one of its name."""
    same = incarnation_planned == incarnation_now
    return held("it is " + ("the same" if same else "another one of its name"), if_=same)


def in_time(*, policy: Policy, now: float, stopped_at: float) -> Reply:
    """A connector that a plan stopped is restarted in time."""
    stopped_s = now - stopped_at
    said = f"stopped for {stopped_s:.0f} s; {policy.stop_total_s:.0f} s are allowed"
    return held(said, if_=-AHEAD_S <= stopped_s < policy.stop_total_s)
