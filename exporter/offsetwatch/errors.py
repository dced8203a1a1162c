"""Errors of offsetwatch, and what the caller does about each.

* OffsetwatchError
  x ConfigError                  the user must change the file           -> exit 2, names the path
  x ClientError                  a remote system; knows its target
    + SettingsRefused            librdkafka refuses a property           -> the user must act
    + TargetUnreachable          no connection was made                  -> nothing happened; retry
    + AmbiguousOutcome           the call may have been carried out      -> a read may be repeated
      - ResponseTimeout          no response in time
        NoReadableCluster        no configured cluster could be read
      - ServerError              any 5xx (Connect returns 500 while the work goes on)
      - IncompleteResponse       the connection broke during the response
    + RemoteRefusal              a response that refuses; nothing happened
      - NotFound                 404, unknown topic                      -> forget the subject
      - Conflict                 409: rebalance, leader unknown          -> retry later
      - LeaderNotAvailable       no leader, or a new one                 -> retry later
      - TooManyRequests          429                                     -> retry later
      - AccessDenied             401, 403, ACL                           -> retrying will not help
      - ProducerFenced           another producer has the transactional.id
    + MalformedResponse          a 2xx that the protocol forbids         -> count, do not believe
    + SizeLimitExceeded          a response beyond our limit, or a
                                 record beyond the broker's              -> retrying will not help
    + OffsetsTopicNotIdentified  discovery found no topic or several     -> the message says what to
                                                                            configure
      - SeveralOffsetsTopics     several
    + TopicChanged               recreated, truncated or split while it
                                 was read                                -> read it from the start
  x HistoryError                 the history pipeline broke a guarantee
    + SparkTerminated            the JVM ended during the run            -> run again, no loss
  x RemedyError                  a change may not begin                  -> exit 3; nothing happened
    + ConnectorBusy              another process changes this connector  -> wait for it
    + PlanUnfinished             an earlier plan for it is still open    -> recover or resolve it
    + PlanStateConflict          the journal has another state of it     -> check the plan's outcome
    + JournalDamaged             the journal is not what was written     -> no journal, no change
    + NotLeader                  this replica is not the leader

Not an exception: Undecodable (a value that decoders return). Not caught: AssertionError, which is a
bug. Each class has a `reason`, a short fixed word: the `reason` label of `input_errors_total`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import ClassVar


class OffsetwatchError(Exception):
    """Root of all errors that this program raises on purpose."""

    reason: ClassVar[str] = "error"


class ConfigError(OffsetwatchError):
    """Error in the configuration file; `mistakes` lists every mistake, each with its path."""

    reason = "config"

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class HistoryError(OffsetwatchError):
    """Error of the history pipeline: it cannot go on without breaking a guarantee."""

    reason = "history"


class SparkTerminated(HistoryError):
    """Error: the JVM of a Spark run ended: killed, out of memory, or spark-submit was stopped."""

    reason = "spark_gone"


class RemedyError(OffsetwatchError):
    """Error of a change that may not begin, and has not. The message says what to do first."""

    reason = "remedy"


class ConnectorBusy(RemedyError):
    """Error: another process is changing this connector now."""

    reason = "busy"


class PlanUnfinished(RemedyError):
    """Error: an earlier plan for this connector is still open, and no process works on it."""

    reason = "unfinished"

    def __init__(self, plan_id: str, detail: str) -> None:
        super().__init__(detail)
        self.plan_id = plan_id


class PlanStateConflict(RemedyError):
    """Error: the journal no longer has the plan in the state that the change started from."""

    reason = "overtaken"


class JournalDamaged(RemedyError):
    """Error: the journal is not what was written to it, or cannot be written to."""

    reason = "journal_damaged"


class NotLeader(RemedyError):
    """Error: this replica is not, or no longer, the leader.

    Its entry is not in the journal, or another replica will find it there.
    """

    reason = "not_leader"


class ClientError(OffsetwatchError):
    """Error of a call to a remote system.

    `target` names the cluster or URL that was called, never a secret. `advice` says what to change,
    None where that is not known.
    """

    reason = "client"

    def __init__(self, target: str, detail: str, advice: str | None = None) -> None:
        super().__init__(f"{target}: {detail}")
        self.target = target
        self.detail = detail
        self.advice = advice


class SettingsRefused(ClientError):
    """Error: the client library refuses a property, its value, or a file that it names."""

    reason = "settings"


class TargetUnreachable(ClientError):
    """Error: no connection was made. Nothing happened."""

    reason = "unreachable"


class AmbiguousOutcome(ClientError):
    """Error: the call may or may not have been carried out."""

    reason = "ambiguous"


class ResponseTimeout(AmbiguousOutcome):
    """Error: no response in time."""

    reason = "timeout"


class NoReadableCluster(ResponseTimeout):
    """Error: no connector could be read. `lines` has one line for each cluster, with the cause."""

    def __init__(self, lines: Iterable[str], doctor: str = "offsetwatch doctor") -> None:
        self.lines = tuple(lines)
        super().__init__(
            "no connector could be read",
            "; ".join(self.lines),
            f"`{doctor}` checks each of them and says what to do",
        )


class ServerError(AmbiguousOutcome):
    """Error: a 5xx response."""

    reason = "server_error"


class IncompleteResponse(AmbiguousOutcome):
    """Error: the connection broke before the response was complete."""

    reason = "cut_off"


class RemoteRefusal(ClientError):
    """Error: the remote system refused. Nothing happened."""

    reason = "refused"


class NotFound(RemoteRefusal):
    """Error: 404, or a topic that the broker does not know or does not let us describe."""

    reason = "not_found"


class Conflict(RemoteRefusal):
    """Error: 409. Connect is rebalancing or has no known leader."""

    reason = "conflict"


class LeaderNotAvailable(RemoteRefusal):
    """Error: the partition has no leader, or a new one, at the moment."""

    reason = "unsettled"


class TooManyRequests(RemoteRefusal):
    """Error: 429, too many requests."""

    reason = "throttled"


class AccessDenied(RemoteRefusal):
    """Error: 401, 403 or a missing ACL."""

    reason = "denied"


class ProducerFenced(RemoteRefusal):
    """Error: another producer took over our transactional.id. The broker rejects all we send."""

    reason = "fenced"


class MalformedResponse(ClientError):
    """Error: a success response that the protocol does not allow."""

    reason = "malformed"


class SizeLimitExceeded(ClientError):
    """Error: a response larger than our limit, or a record larger than the broker's limit."""

    reason = "too_large"


class OffsetsTopicNotIdentified(ClientError):
    """Error: discovery found no offsets topic or several. The message says what to configure."""

    reason = "topic_not_settled"


class SeveralOffsetsTopics(OffsetsTopicNotIdentified):
    """Error: several topics look like the offsets topic."""


class TopicChanged(ClientError):
    """Error: the topic is not the one that was read. What was read from it is no longer valid."""

    reason = "topic_changed"


def raised_at(error: BaseException) -> str:
    """Return the class of an error, and the function and line that raised it; no message."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
