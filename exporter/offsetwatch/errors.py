"""What can go wrong, and what the caller does about it.

* OffsetwatchError
  x ConfigError            the user must change the file            -> exit 2, names the YAML path
  x ClientError            the outside world; knows its target
    + SettingsRefused      librdkafka takes no such property       -> the user must change the file
    + Unreachable          no connection was made                   -> nothing happened; retry later
    + Ambiguous            the call may have been carried out       -> a read may be repeated
      - ResponseTimeout           no answer in time
        NoReadableCluster        of no cluster that is configured
      - ServerError        any 5xx (Connect says 500 while the work goes on)
      - IncompleteResponse             the connection broke in the middle of an answer
    + Refused              an answer that says no; nothing happened
      - NotFound           404, unknown topic                       -> forget the subject
      - Conflict           409: rebalance, leader unknown           -> retry later
      - Unsettled          no leader, or a new one, just now        -> retry later
      - Throttled          429                                      -> retry later
      - Denied             401, 403, ACL                            -> retrying will not help
    + Malformed            a 2xx the protocol forbids               -> count, do not believe
    + SizeLimitExceeded             an answer beyond our bound, or a record
                           beyond the broker's                      -> retrying will not help
    + OffsetsTopicNotIdentified      discovery found none or several topics   -> the message says
    what to name
      - SeveralOffsetsTopics   several
    + TopicChanged         re-created, cut or split under a reader  -> read it again from the start
  x HistoryError           the pipeline's contract was broken
    + SparkTerminated            its JVM ended under it                   -> run again; nothing is
    lost
  x RemedyError            a change may not begin                   -> exit 3; nothing happened
    + Busy                 another process works on this connector  -> wait for it
    + Unfinished           an earlier plan for it is still open     -> recover or resolve that one
    + Overtaken            somebody has begun or refused this plan  -> look at what became of it
    + JournalDamaged       the journal is not what was written      -> no journal, no change

Not exceptions: Undecodable (a value that decoders return). Not caught: AssertionError, which is a
bug. Each class carries `reason`, a short fixed word: it is the `reason` label of
`input_errors_total`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import ClassVar


class OffsetwatchError(Exception):
    """Root of everything this program raises on purpose."""

    reason: ClassVar[str] = "error"


class ConfigError(OffsetwatchError):
    """The configuration file is wrong; `mistakes` lists every one of them, each with its path."""

    reason = "config"

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class HistoryError(OffsetwatchError):
    """The history pipeline cannot go on without breaking what it promises."""

    reason = "history"


class SparkTerminated(HistoryError):
    """Spark's JVM ended under the run: killed, out of memory, or spark-submit was told to stop."""

    reason = "spark_gone"


class RemedyError(OffsetwatchError):
    """A change may not begin, and has not. The message says what to do first."""

    reason = "remedy"


class ConnectorBusy(RemedyError):
    """Another process works on this connector now."""

    reason = "busy"


class PlanUnfinished(RemedyError):
    """An earlier plan for this connector is still open, and nobody works on it."""

    reason = "unfinished"

    def __init__(self, plan_id: str, detail: str) -> None:
        super().__init__(detail)
        self.plan_id = plan_id


class PlanStateConflict(RemedyError):
    """What was about to be begun is no longer what the journal says of the plan."""

    reason = "overtaken"


class JournalDamaged(RemedyError):
    """The journal is not what was written to it, or cannot be written to."""

    reason = "journal_damaged"


class NotLeader(RemedyError):
    """This replica does not lead, or does not any more: what it was about to write is not in the
    journal, or another replica will find it there.
    """

    reason = "not_leader"


class ClientError(OffsetwatchError):
    """The outside world. `target` names the cluster or URL that was asked, never a secret;
    `advice` what to change, None where that is not known.
    """

    reason = "client"

    def __init__(self, target: str, detail: str, advice: str | None = None) -> None:
        super().__init__(f"{target}: {detail}")
        self.target = target
        self.detail = detail
        self.advice = advice


class SettingsRefused(ClientError):
    """The client library refuses a property, its value, or a file that it names."""

    reason = "settings"


class TargetUnreachable(ClientError):
    """No connection was made: nothing happened."""

    reason = "unreachable"


class AmbiguousOutcome(ClientError):
    """The call may or may not have been carried out."""

    reason = "ambiguous"


class ResponseTimeout(AmbiguousOutcome):
    """No answer in time."""

    reason = "timeout"


class NoReadableCluster(ResponseTimeout):
    """No cluster could be read. `lines` has each of them and why, in one line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("no cluster could be read", "; ".join(self.lines))


class ServerError(AmbiguousOutcome):
    """A 5xx answer."""

    reason = "server_error"


class IncompleteResponse(AmbiguousOutcome):
    """The connection broke before the answer was complete."""

    reason = "cut_off"


class RemoteRefusal(ClientError):
    """An answer that says no."""

    reason = "refused"


class NotFound(RemoteRefusal):
    """404, or a topic the broker does not know (or does not let us see)."""

    reason = "not_found"


class Conflict(RemoteRefusal):
    """409: Connect is rebalancing or has no known leader."""

    reason = "conflict"


class LeaderNotAvailable(RemoteRefusal):
    """The partition has no leader, or a new one, just now."""

    reason = "unsettled"


class TooManyRequests(RemoteRefusal):
    """429: too much at once."""

    reason = "throttled"


class AccessDenied(RemoteRefusal):
    """401, 403 or a missing ACL."""

    reason = "denied"


class ProducerFenced(RemoteRefusal):
    """Another producer was given our transactional.id: the broker takes nothing more from us."""

    reason = "fenced"


class MalformedResponse(ClientError):
    """A success answer that is not what the protocol promises."""

    reason = "malformed"


class SizeLimitExceeded(ClientError):
    """An answer larger than we are willing to hold, or a record larger than the broker is."""

    reason = "too_large"


class OffsetsTopicNotIdentified(ClientError):
    """Discovery could not name exactly one offsets topic; the message says what to configure."""

    reason = "topic_not_settled"


class SeveralOffsetsTopics(OffsetsTopicNotIdentified):
    """Several topics hold what one should."""


class TopicChanged(ClientError):
    """The topic is not the one that was read: what was read of it no longer holds."""

    reason = "topic_changed"


def raised_at(error: BaseException) -> str:
    """Return the class of an error and the function and line that raised it, without its words."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
