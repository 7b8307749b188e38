"""Kafka's error codes, one class each, as of Kafka 4.4. Import them from `pykafka.exceptions`.

`stale` marks errors that show outdated metadata about leaders or coordinators: refresh it, then try again.
"""
# A table: two blank lines between its rows would hide it.
# fmt: off

from __future__ import annotations

from pykafka.errors.base import ProtocolClientError


class OffsetOutOfRangeError(ProtocolClientError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The offset is not in the partition's log, which starts later or ends earlier: reset the position."""
class InvalidMessageError(ProtocolClientError, code=2, name="CORRUPT_MESSAGE", retriable=True):
    """A message is corrupt: its checksum or length is wrong, or it lacks the key that a compacted topic wants."""
class UnknownTopicOrPartition(ProtocolClientError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION", stale=True):
    """The broker does not have this topic or partition: check its name, or create it."""
class InvalidMessageSize(ProtocolClientError, code=4, name="INVALID_FETCH_SIZE"):
    """The size asked for is not possible: ask for a positive number of bytes."""
class LeaderNotAvailable(ProtocolClientError, code=5, name="LEADER_NOT_AVAILABLE", stale=True):
    """The partition has no leader while one is elected: try again."""
class NotLeaderForPartition(ProtocolClientError, code=6, name="NOT_LEADER_OR_FOLLOWER", stale=True):
    """The broker no longer leads, or keeps, this partition: ask for metadata and go to the new leader."""
class RequestTimedOut(ProtocolClientError, code=7, name="REQUEST_TIMED_OUT", retriable=True):
    """The broker could not finish within the time that the request gave it."""
class BrokerNotAvailable(ProtocolClientError, code=8, name="BROKER_NOT_AVAILABLE"):
    """The broker is not up."""
class ReplicaNotAvailable(ProtocolClientError, code=9, name="REPLICA_NOT_AVAILABLE", stale=True):
    """The broker has no replica of this partition at the moment."""
class MessageSizeTooLarge(ProtocolClientError, code=10, name="MESSAGE_TOO_LARGE"):
    """A message or batch is larger than the topic's max.message.bytes: raise that, or send smaller ones."""
class StaleControllerEpoch(ProtocolClientError, code=11, name="STALE_CONTROLLER_EPOCH"):
    """The controller has moved to another broker."""
class OffsetMetadataTooLarge(ProtocolClientError, code=12, name="OFFSET_METADATA_TOO_LARGE"):
    """The metadata of a commit is longer than the broker's offset.metadata.max.bytes."""
class NetworkException(ProtocolClientError, code=13, name="NETWORK_EXCEPTION", stale=True):
    """The connection went away before there was an answer."""
class GroupLoadInProgress(ProtocolClientError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS", retriable=True):
    """The coordinator is still reading the group's state: try again."""
class GroupCoordinatorNotAvailable(ProtocolClientError, code=15, name="COORDINATOR_NOT_AVAILABLE", stale=True):
    """The group has no coordinator yet, or no more: look for it again."""
class NotCoordinatorForGroup(ProtocolClientError, code=16, name="NOT_COORDINATOR", stale=True):
    """The broker does not coordinate this group: look for the coordinator again."""
class InvalidTopic(ProtocolClientError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """No topic can have this name (1 to 249 of a-z A-Z 0-9 . _ -), or it is internal and may not be written."""
class RecordListTooLarge(ProtocolClientError, code=18, name="RECORD_LIST_TOO_LARGE"):
    """The batch is larger than a segment of the topic's log: send smaller ones."""
class NotEnoughReplicas(ProtocolClientError, code=19, name="NOT_ENOUGH_REPLICAS", retriable=True):
    """Fewer replicas are in sync than min.insync.replicas wants; nothing was written."""
class NotEnoughReplicasAfterAppend(
    ProtocolClientError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable=True
):
    """Written, but to fewer replicas than min.insync.replicas wants; sending again may write it twice."""
class InvalidRequiredAcks(ProtocolClientError, code=21, name="INVALID_REQUIRED_ACKS"):
    """The broker knows required_acks of -1, 0 and 1 only."""
class IllegalGeneration(ProtocolClientError, code=22, name="ILLEGAL_GENERATION"):
    """The group has had another rebalance since: rejoin it."""
class InconsistentGroupProtocol(ProtocolClientError, code=23, name="INCONSISTENT_GROUP_PROTOCOL"):
    """The members of the group have no assignment protocol in common, or are of the next-generation protocol, and the brokers'
    group.consumer.migration.policy lets no classic member in."""
class InvalidGroupId(ProtocolClientError, code=24, name="INVALID_GROUP_ID"):
    """No group can have this name; an empty one is not taken here."""
class UnknownMemberId(ProtocolClientError, code=25, name="UNKNOWN_MEMBER_ID"):
    """The coordinator does not know this member, or has dropped it: rejoin with an empty member id."""
class InvalidSessionTimeout(ProtocolClientError, code=26, name="INVALID_SESSION_TIMEOUT"):
    """The broker takes session timeouts from group.min.session.timeout.ms to group.max.session.timeout.ms."""
class RebalanceInProgress(ProtocolClientError, code=27, name="REBALANCE_IN_PROGRESS"):
    """The group is rebalancing: rejoin it."""
class InvalidCommitOffsetSize(ProtocolClientError, code=28, name="INVALID_COMMIT_OFFSET_SIZE"):
    """The commit is larger than the broker can store."""
class TopicAuthorizationFailed(ProtocolClientError, code=29, name="TOPIC_AUTHORIZATION_FAILED"):
    """This user may not do that with the topic: ask for an ACL."""
class GroupAuthorizationFailed(ProtocolClientError, code=30, name="GROUP_AUTHORIZATION_FAILED"):
    """This user may not do that with the group: ask for an ACL."""
class ClusterAuthorizationFailed(ProtocolClientError, code=31, name="CLUSTER_AUTHORIZATION_FAILED"):
    """This user may not do that with the cluster: ask for an ACL."""
class InvalidTimestamp(ProtocolClientError, code=32, name="INVALID_TIMESTAMP"):
    """A message's timestamp is further from the broker's clock than the topic allows."""
class UnsupportedSaslMechanism(ProtocolClientError, code=33, name="UNSUPPORTED_SASL_MECHANISM"):
    """The broker does not offer this SASL mechanism; its answer lists those that it does."""
class IllegalSaslState(ProtocolClientError, code=34, name="ILLEGAL_SASL_STATE"):
    """The request does not fit the state of the SASL handshake."""
class UnsupportedVersion(ProtocolClientError, code=35, name="UNSUPPORTED_VERSION"):
    """Broker and client have no version of this request in common: it needs a newer, or older, broker."""
class TopicAlreadyExists(ProtocolClientError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """There is a topic of this name already."""
class InvalidPartitions(ProtocolClientError, code=37, name="INVALID_PARTITIONS"):
    """The number of partitions is not possible: at least 1, and never fewer than there are."""
class InvalidReplicationFactor(ProtocolClientError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """The replication factor must be from 1 to the number of brokers that are up."""
class InvalidReplicaAssignment(ProtocolClientError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """The replicas named for the partitions are not possible: unknown, repeated or of unequal number."""
class InvalidConfig(ProtocolClientError, code=40, name="INVALID_CONFIG"):
    """A setting has an unknown name or a value that is not possible."""
class NotController(ProtocolClientError, code=41, name="NOT_CONTROLLER", stale=True):
    """The broker is not the cluster's controller: ask for metadata and go to the one that is."""
class InvalidRequest(ProtocolClientError, code=42, name="INVALID_REQUEST"):
    """The broker finds the request malformed or contradictory; its log says more."""
class UnsupportedForMessageFormat(ProtocolClientError, code=43, name="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
    """The topic's log is in an old message format that does not allow this: raise message.format.version of the topic."""
class PolicyViolation(ProtocolClientError, code=44, name="POLICY_VIOLATION"):
    """A policy of this cluster forbids it; the broker's message says which."""
class OutOfOrderSequenceNumber(ProtocolClientError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """The idempotent producer skipped a batch: an earlier one was lost."""
class DuplicateSequenceNumber(ProtocolClientError, code=46, name="DUPLICATE_SEQUENCE_NUMBER"):
    """The broker has this batch of the idempotent producer already."""
class InvalidProducerEpoch(ProtocolClientError, code=47, name="INVALID_PRODUCER_EPOCH"):
    """A newer producer has taken over this transactional id."""
class InvalidTxnState(ProtocolClientError, code=48, name="INVALID_TXN_STATE"):
    """The transaction is not in a state that allows this."""
class InvalidProducerIdMapping(ProtocolClientError, code=49, name="INVALID_PRODUCER_ID_MAPPING"):
    """The producer id does not belong to this transactional id any more: start the producer anew."""
class InvalidTransactionTimeout(ProtocolClientError, code=50, name="INVALID_TRANSACTION_TIMEOUT"):
    """The transaction timeout is longer than the broker's transaction.max.timeout.ms."""
class ConcurrentTransactions(ProtocolClientError, code=51, name="CONCURRENT_TRANSACTIONS", retriable=True):
    """The previous transaction of this transactional id is still being completed: try again."""
class TransactionCoordinatorFenced(ProtocolClientError, code=52, name="TRANSACTION_COORDINATOR_FENCED"):
    """The transaction coordinator has been replaced by another."""
class TransactionalIdAuthorizationFailed(ProtocolClientError, code=53, name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
    """This user may not use this transactional id: ask for an ACL."""
class SecurityDisabled(ProtocolClientError, code=54, name="SECURITY_DISABLED"):
    """The cluster has no authorizer, hence no ACLs."""
class OperationNotAttempted(ProtocolClientError, code=55, name="OPERATION_NOT_ATTEMPTED"):
    """Left undone because another part of the same request failed."""
class KafkaStorageError(ProtocolClientError, code=56, name="KAFKA_STORAGE_ERROR", stale=True):
    """The broker cannot read or write its disk; another replica may take over."""
class LogDirNotFound(ProtocolClientError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The broker is not configured to use this log directory."""
class SaslAuthenticationFailed(ProtocolClientError, code=58, name="SASL_AUTHENTICATION_FAILED"):
    """The broker does not accept these credentials."""
class UnknownProducerId(ProtocolClientError, code=59, name="UNKNOWN_PRODUCER_ID"):
    """The broker has forgotten this producer, as when all that it wrote was deleted: start a new epoch."""
class ReassignmentInProgress(ProtocolClientError, code=60, name="REASSIGNMENT_IN_PROGRESS"):
    """The partitions are being moved to other brokers at this time."""
class DelegationTokenAuthDisabled(ProtocolClientError, code=61, name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """The cluster does not use delegation tokens."""
class DelegationTokenNotFound(ProtocolClientError, code=62, name="DELEGATION_TOKEN_NOT_FOUND"):
    """The broker does not have this delegation token."""
class DelegationTokenOwnerMismatch(ProtocolClientError, code=63, name="DELEGATION_TOKEN_OWNER_MISMATCH"):
    """The delegation token belongs to another user."""
class DelegationTokenRequestNotAllowed(ProtocolClientError, code=64, name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
    """Delegation tokens are not handed out over this kind of connection."""
class DelegationTokenAuthorizationFailed(ProtocolClientError, code=65, name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
    """This user may not do that with the delegation token."""
class DelegationTokenExpired(ProtocolClientError, code=66, name="DELEGATION_TOKEN_EXPIRED"):
    """The delegation token has expired: get a new one."""
class InvalidPrincipalType(ProtocolClientError, code=67, name="INVALID_PRINCIPAL_TYPE"):
    """The broker knows no principals of this type."""
class NonEmptyGroup(ProtocolClientError, code=68, name="NON_EMPTY_GROUP"):
    """The group still has members: stop them first."""
class GroupIdNotFound(ProtocolClientError, code=69, name="GROUP_ID_NOT_FOUND"):
    """There is no group of this name."""
class FetchSessionIdNotFound(ProtocolClientError, code=70, name="FETCH_SESSION_ID_NOT_FOUND", retriable=True):
    """The broker has dropped this fetch session: start a new one."""
class InvalidFetchSessionEpoch(ProtocolClientError, code=71, name="INVALID_FETCH_SESSION_EPOCH", retriable=True):
    """Broker and client disagree about the fetch session: start a new one."""
class ListenerNotFound(ProtocolClientError, code=72, name="LISTENER_NOT_FOUND", stale=True):
    """The partition's leader has no listener like the one that metadata was asked of."""
class TopicDeletionDisabled(ProtocolClientError, code=73, name="TOPIC_DELETION_DISABLED"):
    """The cluster does not delete topics (delete.topic.enable=false)."""
class FencedLeaderEpoch(ProtocolClientError, code=74, name="FENCED_LEADER_EPOCH", stale=True):
    """The partition has had another leader since: ask for metadata."""
class UnknownLeaderEpoch(ProtocolClientError, code=75, name="UNKNOWN_LEADER_EPOCH", retriable=True):
    """The broker has not heard of this leader epoch yet: try again."""
class UnsupportedCompressionType(ProtocolClientError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE"):
    """The codec is newer than the version of the request: zstd needs Kafka 2.1."""
class StaleBrokerEpoch(ProtocolClientError, code=77, name="STALE_BROKER_EPOCH"):
    """The broker has been restarted since."""
class OffsetNotAvailable(ProtocolClientError, code=78, name="OFFSET_NOT_AVAILABLE", retriable=True):
    """A leader that was just elected does not know the end of its log yet: try again."""
class MemberIdRequired(ProtocolClientError, code=79, name="MEMBER_ID_REQUIRED"):
    """The coordinator wants the member to join again with the id it has just been given."""
class PreferredLeaderNotAvailable(ProtocolClientError, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE", stale=True):
    """The partition's preferred leader is not up."""
class GroupMaxSizeReached(ProtocolClientError, code=81, name="GROUP_MAX_SIZE_REACHED"):
    """The group has as many members as group.max.size allows."""
class FencedInstanceId(ProtocolClientError, code=82, name="FENCED_INSTANCE_ID"):
    """Another consumer with the same group instance id has joined: give each its own."""
class EligibleLeadersNotAvailable(ProtocolClientError, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE", stale=True):
    """No replica of the partition can become its leader at the moment."""
class ElectionNotNeeded(ProtocolClientError, code=84, name="ELECTION_NOT_NEEDED", stale=True):
    """The partition has the right leader already."""
class NoReassignmentInProgress(ProtocolClientError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """The partition is not being moved, so there is nothing to cancel."""
class GroupSubscribedToTopic(ProtocolClientError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC"):
    """Members of the group still read the topic: stop them before its offsets are deleted."""
class InvalidRecord(ProtocolClientError, code=87, name="INVALID_RECORD"):
    """The broker checked the records and rejects some; its answer says which."""
class UnstableOffsetCommit(ProtocolClientError, code=88, name="UNSTABLE_OFFSET_COMMIT", retriable=True):
    """A transaction is about to commit offsets of these partitions: try again."""
class ThrottlingQuotaExceeded(ProtocolClientError, code=89, name="THROTTLING_QUOTA_EXCEEDED", retriable=True):
    """This user has changed topics faster than its quota allows: try again later."""
class ProducerFenced(ProtocolClientError, code=90, name="PRODUCER_FENCED"):
    """A newer producer uses the same transactional id: this one must stop."""
class ResourceNotFound(ProtocolClientError, code=91, name="RESOURCE_NOT_FOUND"):
    """The request names something that does not exist."""
class DuplicateResource(ProtocolClientError, code=92, name="DUPLICATE_RESOURCE"):
    """The request names the same thing twice."""
class UnacceptableCredential(ProtocolClientError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """The broker does not take this credential, as when its iterations are too few."""
class InconsistentVoterSet(ProtocolClientError, code=94, name="INCONSISTENT_VOTER_SET"):
    """Sender or receiver is not one of the voters that this request is for."""
class InvalidUpdateVersion(ProtocolClientError, code=95, name="INVALID_UPDATE_VERSION"):
    """The version to update to is not possible."""
class FeatureUpdateFailed(ProtocolClientError, code=96, name="FEATURE_UPDATE_FAILED"):
    """The cluster could not change its features; the controller's log says more."""
class PrincipalDeserializationFailure(ProtocolClientError, code=97, name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """A broker passed the request on to the controller, which could not read who sent it."""
class SnapshotNotFound(ProtocolClientError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """The broker does not have this snapshot."""
class PositionOutOfRange(ProtocolClientError, code=99, name="POSITION_OUT_OF_RANGE"):
    """The position lies outside of the snapshot."""
class UnknownTopicId(ProtocolClientError, code=100, name="UNKNOWN_TOPIC_ID", stale=True):
    """The broker has no topic of this id: it may have been deleted, or created anew."""
class DuplicateBrokerRegistration(ProtocolClientError, code=101, name="DUPLICATE_BROKER_REGISTRATION"):
    """Another broker has this number already."""
class BrokerIdNotRegistered(ProtocolClientError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """No broker of this number has registered."""
class InconsistentTopicId(ProtocolClientError, code=103, name="INCONSISTENT_TOPIC_ID", stale=True):
    """The partition's log belongs to another topic id: the topic was deleted and created anew."""
class InconsistentClusterId(ProtocolClientError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The broker belongs to another cluster."""
class TransactionalIdNotFound(ProtocolClientError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND"):
    """The coordinator does not know this transactional id."""
class FetchSessionTopicIdError(ProtocolClientError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", retriable=True):
    """The fetch session mixes topics by name and by id: start a new one."""
class IneligibleReplica(ProtocolClientError, code=107, name="INELIGIBLE_REPLICA"):
    """A replica named as in sync cannot be."""
class NewLeaderElected(ProtocolClientError, code=108, name="NEW_LEADER_ELECTED"):
    """Done, and the partition has another leader now."""
class OffsetMovedToTieredStorage(ProtocolClientError, code=109, name="OFFSET_MOVED_TO_TIERED_STORAGE"):
    """The offset is in remote storage, no longer on the broker."""
class FencedMemberEpoch(ProtocolClientError, code=110, name="FENCED_MEMBER_EPOCH"):
    """The coordinator has dropped this member: give its partitions up and rejoin."""
class UnreleasedInstanceId(ProtocolClientError, code=111, name="UNRELEASED_INSTANCE_ID"):
    """Another member still has this instance id: it has to leave first."""
class UnsupportedAssignor(ProtocolClientError, code=112, name="UNSUPPORTED_ASSIGNOR"):
    """The coordinator does not have this assignor."""
class StaleMemberEpoch(ProtocolClientError, code=113, name="STALE_MEMBER_EPOCH"):
    """The member's epoch is out of date: heartbeat, then try again."""
class MismatchedEndpointType(ProtocolClientError, code=114, name="MISMATCHED_ENDPOINT_TYPE"):
    """A request for brokers went to a controller, or the other way round: check the address."""
class UnsupportedEndpointType(ProtocolClientError, code=115, name="UNSUPPORTED_ENDPOINT_TYPE"):
    """The broker does not know endpoints of this type."""
class UnknownControllerId(ProtocolClientError, code=116, name="UNKNOWN_CONTROLLER_ID"):
    """There is no controller of this number."""
class UnknownSubscriptionId(ProtocolClientError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The telemetry subscription is out of date: ask for it anew."""
class TelemetryTooLarge(ProtocolClientError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The broker does not take that much telemetry at once."""
class InvalidRegistration(ProtocolClientError, code=119, name="INVALID_REGISTRATION"):
    """The controller refuses this broker's registration."""
class TransactionAbortable(ProtocolClientError, code=120, name="TRANSACTION_ABORTABLE"):
    """The transaction failed: abort it, and go on with the same transactional id."""
class InvalidRecordState(ProtocolClientError, code=121, name="INVALID_RECORD_STATE"):
    """The record cannot be acknowledged: another consumer may have it by now."""
class ShareSessionNotFound(ProtocolClientError, code=122, name="SHARE_SESSION_NOT_FOUND", retriable=True):
    """The broker has dropped this share session: start a new one."""
class InvalidShareSessionEpoch(ProtocolClientError, code=123, name="INVALID_SHARE_SESSION_EPOCH", retriable=True):
    """Broker and client disagree about the share session: start a new one."""
class FencedStateEpoch(ProtocolClientError, code=124, name="FENCED_STATE_EPOCH"):
    """The share group's state has moved on."""
class InvalidVoterKey(ProtocolClientError, code=125, name="INVALID_VOTER_KEY"):
    """The voter's key is not that of the replica."""
class DuplicateVoter(ProtocolClientError, code=126, name="DUPLICATE_VOTER"):
    """The voter is one already."""
class VoterNotFound(ProtocolClientError, code=127, name="VOTER_NOT_FOUND"):
    """There is no such voter."""
class InvalidRegularExpression(ProtocolClientError, code=128, name="INVALID_REGULAR_EXPRESSION"):
    """The broker (RE2/J) cannot read this regular expression."""
class RebootstrapRequired(ProtocolClientError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """The client's metadata is too old: start again from the bootstrap addresses."""
class StreamsInvalidTopology(ProtocolClientError, code=130, name="STREAMS_INVALID_TOPOLOGY"):
    """The streams topology is not valid."""
class StreamsInvalidTopologyEpoch(ProtocolClientError, code=131, name="STREAMS_INVALID_TOPOLOGY_EPOCH"):
    """The epoch of the streams topology is not valid."""
class StreamsTopologyFenced(ProtocolClientError, code=132, name="STREAMS_TOPOLOGY_FENCED"):
    """The epoch of the streams topology is out of date."""
class ShareSessionLimitReached(ProtocolClientError, code=133, name="SHARE_SESSION_LIMIT_REACHED", retriable=True):
    """The broker has as many share sessions as it allows: try again later."""
class GroupDeletionFailed(ProtocolClientError, code=134, name="GROUP_DELETION_FAILED"):
    """The broker could not delete all that it keeps of the group; the broker's own words say what."""
class StreamsTopologyDescriptionUpdateFailed(ProtocolClientError, code=135, name="STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"):
    """The broker could not store the description of the streams topology."""
class ControllerIdNotRegistered(ProtocolClientError, code=136, name="CONTROLLER_ID_NOT_REGISTERED"):
    """There is no registered controller of this id."""
