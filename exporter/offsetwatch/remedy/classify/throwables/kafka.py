"""Meanings of exceptions of Kafka's clients and of Connect.

All classes of org.apache.kafka.common.errors of 4.3.1 are here by name, and those of earlier
releases. A class that a later release adds is unknown until it is added here.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.classify.throwables.kinds import (
    FailureKind,
    ThrowableHint,
    ThrowableRule,
    build_rule,
)

_ERRORS = "org.apache.kafka.common.errors."
_COMMON = "org.apache.kafka.common."
_CLIENTS = "org.apache.kafka.clients."
_CONNECT = "org.apache.kafka.connect."

KAFKA: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        ThrowableHint.VALUE,
        "bytes that no serializer can read or write",
        _ERRORS,
        "SerializationException RecordDeserializationException",
    ),
    build_rule(
        ThrowableHint.SIZE,
        "the producer, or the broker, takes no record of this size",
        _ERRORS,
        "RecordTooLargeException",
    ),
    build_rule(
        ThrowableHint.CORRUPT,
        "a record's checksum or its layout is wrong; a producer hears the same of records that a "
        "broker refuses, so it says this of reading alone",
        "",
        "org.apache.kafka.common.errors.CorruptRecordException "
        "org.apache.kafka.common.InvalidRecordException",
    ),
    build_rule(
        ThrowableHint.WRAPS,
        "everybody's exception: what it is for stands in its cause",
        "",
        "org.apache.kafka.common.KafkaException org.apache.kafka.connect.errors.ConnectException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "brokers, leaders and coordinators that are not there or are moving: it passes",
        _ERRORS,
        "ApplicationRecoverableException BrokerIdNotRegisteredException "
        "BrokerNotAvailableException ControllerMovedException CoordinatorLoadInProgressException "
        "CoordinatorNotAvailableException DisconnectException ElectionNotNeededException "
        "EligibleLeadersNotAvailableException FetchSessionIdNotFoundException "
        "FetchSessionTopicIdException GroupCoordinatorNotAvailableException "
        "GroupLoadInProgressException IneligibleReplicaException "
        "InvalidFetchSessionEpochException InvalidMetadataException "
        "InvalidShareSessionEpochException KafkaStorageException LeaderNotAvailableException "
        "ListenerNotFoundException NetworkException NewLeaderElectedException "
        "NoReassignmentInProgressException NotControllerException NotCoordinatorException "
        "NotCoordinatorForGroupException NotEnoughReplicasAfterAppendException "
        "NotEnoughReplicasException NotLeaderForPartitionException NotLeaderOrFollowerException "
        "OffsetMovedToTieredStorageException OffsetNotAvailableException "
        "PreferredLeaderNotAvailableException ReassignmentInProgressException "
        "RebootstrapRequiredException RefreshRetriableException ReplicaNotAvailableException "
        "RetriableException ShareSessionNotFoundException SnapshotNotFoundException "
        "UnknownLeaderEpochException UnstableOffsetCommitException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "the same, said outside Kafka's package of errors",
        "",
        "org.apache.kafka.connect.errors.RetriableException "
        "org.apache.kafka.clients.StaleMetadataException "
        "org.apache.kafka.clients.consumer.internals.NoAvailableBrokersException "
        "org.apache.kafka.common.network.InvalidReceiveException "
        "org.apache.kafka.common.requests.CorrelationIdMismatchException",
    ),
    build_rule(
        FailureKind.TIMEOUT,
        "no answer in time",
        "",
        "org.apache.kafka.common.errors.TimeoutException "
        "org.apache.kafka.connect.util.StagedTimeoutException",
    ),
    build_rule(
        FailureKind.RESOURCE,
        "a quota, a full group, a disk or a buffer",
        "",
        "org.apache.kafka.common.errors.ThrottlingQuotaExceededException "
        "org.apache.kafka.common.errors.GroupMaxSizeReachedException "
        "org.apache.kafka.common.errors.LogDirNotFoundException "
        "org.apache.kafka.common.errors.ShareSessionLimitReachedException "
        "org.apache.kafka.common.errors.TelemetryTooLargeException "
        "org.apache.kafka.common.metrics.QuotaViolationException "
        "org.apache.kafka.clients.producer.BufferExhaustedException",
    ),
    build_rule(
        FailureKind.AUTH,
        "who we are, or what we may",
        _ERRORS,
        "AuthenticationException AuthorizationException AuthorizerNotReadyException "
        "ClusterAuthorizationException DelegationTokenAuthorizationException "
        "DelegationTokenDisabledException DelegationTokenExpiredException "
        "DelegationTokenNotFoundException DelegationTokenOwnerMismatchException "
        "GroupAuthorizationException IllegalSaslStateException InvalidPrincipalTypeException "
        "PrincipalDeserializationException SaslAuthenticationException SecurityDisabledException "
        "SslAuthenticationException TopicAuthorizationException "
        "TransactionalIdAuthorizationException UnacceptableCredentialException "
        "UnsupportedByAuthenticationException UnsupportedSaslMechanismException",
    ),
    build_rule(
        FailureKind.AUTH,
        "tokens and logins of Kafka's security",
        "",
        "org.apache.kafka.common.security.* "
        "org.apache.kafka.common.network.DelayedResponseAuthenticationException",
    ),
    build_rule(
        FailureKind.FENCING,
        "another client has taken this one's place, or a transaction's state is lost",
        _ERRORS,
        "ConcurrentTransactionsException DuplicateSequenceException FencedInstanceIdException "
        "FencedLeaderEpochException FencedMemberEpochException FencedStateEpochException "
        "IllegalGenerationException InconsistentGroupProtocolException "
        "InvalidPidMappingException InvalidProducerEpochException InvalidRecordStateException "
        "InvalidTxnStateException MemberIdRequiredException OutOfOrderSequenceException "
        "ProducerFencedException RebalanceInProgressException StaleBrokerEpochException "
        "StaleMemberEpochException StreamsTopologyFencedException TransactionAbortableException "
        "TransactionAbortedException TransactionCoordinatorFencedException "
        "TransactionalIdNotFoundException UnknownMemberIdException UnknownProducerIdException "
        "UnreleasedInstanceIdException",
    ),
    build_rule(
        FailureKind.FENCING,
        "a rebalance, a leader that changed, or a task that is being stopped",
        "",
        "org.apache.kafka.common.errors.InterruptException "
        "org.apache.kafka.common.errors.WakeupException "
        "org.apache.kafka.clients.consumer.CommitFailedException "
        "org.apache.kafka.clients.consumer.RetriableCommitFailedException "
        "org.apache.kafka.connect.errors.IllegalWorkerStateException "
        "org.apache.kafka.connect.runtime.distributed.NotAssignedException "
        "org.apache.kafka.connect.runtime.distributed.NotLeaderException "
        "org.apache.kafka.connect.runtime.distributed.RebalanceNeededException "
        "org.apache.kafka.connect.runtime.distributed.RequestTargetException "
        "org.apache.kafka.connect.storage.PrivilegedWriteException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "settings, names, versions and features that do not fit the cluster",
        _ERRORS,
        "BrokerNotFoundException DuplicateBrokerRegistrationException DuplicateResourceException "
        "DuplicateVoterException FeatureUpdateFailedException GroupIdNotFoundException "
        "GroupNotEmptyException GroupSubscribedToTopicException InconsistentClusterIdException "
        "InconsistentTopicIdException InconsistentVoterSetException "
        "InvalidCommitOffsetSizeException InvalidConfigurationException InvalidFetchSizeException "
        "InvalidGroupIdException InvalidPartitionsException InvalidRegistrationException "
        "InvalidRegularExpression InvalidReplicaAssignmentException "
        "InvalidReplicationFactorException InvalidRequestException InvalidRequiredAcksException "
        "InvalidSessionTimeoutException InvalidTopicException InvalidTxnTimeoutException "
        "InvalidUpdateVersionException InvalidVoterKeyException MismatchedEndpointTypeException "
        "OperationNotAttemptedException PolicyViolationException ResourceNotFoundException "
        "StreamsInvalidTopologyEpochException StreamsInvalidTopologyException "
        "TopicDeletionDisabledException TopicExistsException UnknownControllerIdException "
        "UnknownSubscriptionIdException UnknownTopicIdException UnknownTopicOrPartitionException "
        "UnsupportedAssignorException UnsupportedCompressionTypeException "
        "UnsupportedEndpointTypeException UnsupportedForMessageFormatException "
        "UnsupportedVersionException VoterNotFoundException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "the same, said elsewhere",
        "",
        "org.apache.kafka.common.config.ConfigException "
        "org.apache.kafka.connect.errors.AlreadyExistsException "
        "org.apache.kafka.connect.errors.NotFoundException "
        "org.apache.kafka.connect.runtime.TooManyTasksException "
        "org.apache.kafka.connect.runtime.isolation.VersionedPluginLoadingException "
        "org.apache.kafka.connect.runtime.rest.errors.BadRequestException "
        "org.apache.kafka.connect.runtime.rest.errors.ConnectRestException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "a position that is not in the log: a matter of offsets, which no skip sets right",
        "",
        "org.apache.kafka.common.errors.InvalidOffsetException "
        "org.apache.kafka.common.errors.OffsetOutOfRangeException "
        "org.apache.kafka.common.errors.PositionOutOfRangeException "
        "org.apache.kafka.clients.consumer.InvalidOffsetException "
        "org.apache.kafka.clients.consumer.LogTruncationException "
        "org.apache.kafka.clients.consumer.NoOffsetForPartitionException "
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "something was refused, but it need not be one record",
        _ERRORS,
        "ApiException InvalidTimestampException OffsetMetadataTooLarge "
        "RecordBatchTooLargeException UnknownServerException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "Kafka's own protocol, not a record's schema",
        _COMMON,
        "protocol.types.SchemaException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "parts of share groups, which Connect does not use",
        _CLIENTS,
        "consumer.internals.ShareFetchException consumer.internals.ShareInFlightBatchException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "Connect's own word for data that does not fit; converters, transforms and sinks use it",
        _CONNECT,
        "errors.DataException",
    ),
    build_rule(
        ThrowableHint.SCHEMA,
        "a schema that cannot be built, or one that does not go into another",
        _CONNECT,
        "errors.SchemaBuilderException errors.SchemaProjectorException",
    ),
)
