"""`ORDINARY`: the errors that calls of programs may fail with, and the faults that have to explain them.

In a seed without faults, calls fail by rebalances alone, and by what programs do on purpose. An error of another name, or one
of these without its fault, is `Kind.UNEXPLAINED_ERROR`. Errors that are no `KafkaException` fail the seed anyway.

A program whose calls may fail with another error has its row here, with the faults that cause it: `fail Produce INVALID_RECORD`
names a fault that has these words, `fail` each fault of that name. "At any time" is for what needs no fault at all.
"""

from __future__ import annotations

from pykafka.testing.checker import Ordinary
from pykafka.testing.simulation import zookeeping

#: Faults by which requests or their answers are late or lost, and connections are refused or end.
UNREACHABLE = ("stop", "pause", "hang_up", "cut", "hold", "latency", "network", "cut_all", "throttle", "late")
#: Faults by which a request reaches its broker, and is not done there.
REFUSED = (
    "isolate",
    "set_leader",
    "move_leader",
    "move_coordinator",
    "unclean",
    "forget",
    "forget_often",
    "early_batches",
    "fail",
)
#: Faults by which a request about a transaction may come late: behind later ones of the same producer, or of the next one.
OVERTAKEN = (
    *(
        f"{fault} {api}"
        for fault in ("hold", "late", "cut", "throttle")
        for api in ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
    ),
    *("stop", "pause", "hang_up", "latency", "network", "cut_all", "hold_markers"),
)
#: The programs that write in transactions.
IN_TRANSACTIONS = ("t1", "j1", "x1", "x2")
#: Faults by which ZooKeeper does not answer, or its sessions end.
ZOOKEEPER = tuple(sorted(zookeeping.FAULTS))
#: How long a fault may make calls fail after its end (ms): a batch waits behind others, and keeps the last error; a client
#: waits before it asks again; a request that was sent before is answered late.
LASTS_MS = 5_000
#: How long a message may be on its way, and its transaction fail at its commit (ms): `World.delivery_ms`, two socket time-outs.
GIVEN_UP_MS = 14_000
#: How long partitions of a topic that was deleted may be away (ms): for the rest of a run.
AWAY_MS = 600_000

#: What is answered about a topic that is not there, or is another one of the same name.
UNKNOWN_TOPICS = ("UnknownTopicId", "UnknownTopicOrPartition", "InconsistentTopicId")

#: What programs do themselves, at any time.
OWN: tuple[Ordinary, ...] = (
    # They die, abort transactions, and close a consumer that polls.
    Ordinary(("Crash",), ("poll", "acquire")),
    Ordinary(("TransactionAbortedError",), ("send",)),
    Ordinary(("ConsumerStoppedException",), ("poll",), processes=("g1",)),
    # They handle records for longer than their locks last; `check_holders` reports those that are refused before.
    Ordinary(("InvalidRecordState",), ("acknowledge",)),
    # The one of administration changes what is not there, and makes what is.
    Ordinary(("TopicAlreadyExists",), ("create",), processes=("a1",)),
    Ordinary(("UnknownTopicOrPartition",), ("delete", "alter", "add"), processes=("a1",)),
    Ordinary(("InvalidPartitions",), ("add",), processes=("a1",)),
    Ordinary(("GroupIdNotFound",), ("delete", "describe groups"), processes=("a1",)),
    Ordinary(("TransactionalIdNotFound",), ("describe transactions",), processes=("a1",)),
    # Brokers of 2.8 and before do not have them.
    Ordinary(("UnsupportedVersion",), ("describe transactions", "list transactions"), processes=("a1",)),
    # It deletes a topic, and makes it anew, as a fault does: what is sent to it, read of it or committed for it fails.
    *(
        Ordinary(errors, calls, ("change delete remade", "remake remade"), AWAY_MS, processes)
        for errors, calls, processes in (
            (UNKNOWN_TOPICS, ("send", "poll", "assign", "committed"), ("p5", "c5", "m5")),
            (("LeaderNotFoundError",), ("count partitions",), ("p5",)),
            # Its partition may never come back: until the producer is closed, others wait behind it, and are not sent at all.
            (("DeliveryUnknownError", "ProducerStoppedException"), ("send",), ("p5",)),
            (("OffsetsNotCommitted",), ("commit",), ("m5",)),
        )
    ),
    # They send records without a key to a compacted topic.
    Ordinary(("InvalidRecord",), ("send",), processes=("v1",)),
)

_AT_ANY_TIME: tuple[Ordinary, ...] = (
    *OWN,
    # Rebalances, and an assignor that fails.
    Ordinary(("ShareLostError", "OffsetsNotCommitted"), ("commit", "close consumer", "stop run", "wait", "pool")),
    Ordinary(("ShareLostError", "TransactionAbortableError"), ("send_offsets", "exactly_once")),
    Ordinary(("AssignorError",), ("poll", "pool", "subscribe", "commit", "close consumer")),
)

#: Errors of brokers, each of which its own faults explain: a call raises the last one if it has tried for too long.
_OF_BROKERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "NotLeaderForPartition",
        ("fail NOT_LEADER_OR_FOLLOWER", "set_leader", "move_leader", "unclean", "isolate", "stop"),
    ),
    ("LeaderNotAvailable", ("fail LEADER_NOT_AVAILABLE", "stop", "isolate")),
    ("NotEnoughReplicas", ("fail NOT_ENOUGH_REPLICAS", "stop")),
    ("RequestTimedOut", ("fail REQUEST_TIMED_OUT",)),
    ("UnknownTopicOrPartition", ("fail UNKNOWN_TOPIC_OR_PARTITION",)),
    ("FencedLeaderEpoch", ("fail FENCED_LEADER_EPOCH", "set_leader", "move_leader", "isolate", "stop")),
    ("UnknownLeaderEpoch", ("fail UNKNOWN_LEADER_EPOCH", "set_leader", "move_leader", "isolate", "stop")),
    ("NotCoordinatorForGroup", ("fail NOT_COORDINATOR", "move_coordinator", "isolate", "stop")),
    ("GroupCoordinatorNotAvailable", ("fail COORDINATOR_NOT_AVAILABLE", "stop", "isolate")),
    ("GroupLoadInProgress", ("fail COORDINATOR_LOAD_IN_PROGRESS",)),
    # To a member's first heartbeat it says that the group is of another kind.
    ("GroupIdNotFound", ("fail GROUP_ID_NOT_FOUND",)),
    ("InvalidRecord", ("fail INVALID_RECORD",)),
    ("InvalidProducerEpoch", ("fail INVALID_PRODUCER_EPOCH",)),
    ("ThrottledError", ("throttle",)),
)

ORDINARY: tuple[Ordinary, ...] = (
    *_AT_ANY_TIME,
    *(Ordinary((error,), faults=faults, lasts_ms=LASTS_MS) for error, faults in _OF_BROKERS),
    # Time-outs, and connections that cannot be used.
    Ordinary(
        (
            "ConnectTimeoutError",
            "ConnectionRefused",
            "NoBrokersAvailableError",
            "ResponseTimeoutError",
            "SocketDisconnectedError",
        ),
        faults=UNREACHABLE,
        lasts_ms=LASTS_MS,
    ),
    # An InitProducerId of its own that came late has raised the epoch, as it names no producer: the coordinator refuses the
    # former one, and so does a log that has the marker of it. The client cannot tell that from another producer of its id.
    Ordinary(
        ("InvalidProducerEpoch", "ProducerFencedError"), ("send",), OVERTAKEN, LASTS_MS, processes=IN_TRANSACTIONS
    ),
    # Records that could not be delivered in time; in a transaction, those behind one that was given up are out of order.
    Ordinary(
        ("DeliveryUnknownError", "MessagesNotDelivered", "OutOfOrderSequenceNumber", "ProducerStoppedException"),
        ("send", "close producer"),
        (*UNREACHABLE, *REFUSED),
        LASTS_MS,
    ),
    Ordinary(("ConcurrentTransactions",), faults=(*UNREACHABLE, *REFUSED, "hold_markers"), lasts_ms=LASTS_MS),
    # A transaction waits for its messages, and fails if one of them is given up.
    Ordinary(
        ("TransactionAbortableError", "TransactionUnfinishedError"),
        faults=(*UNREACHABLE, *REFUSED, "hold_markers"),
        lasts_ms=LASTS_MS + GIVEN_UP_MS,
    ),
    # A leader that is cut off, and replaced, holds records of acks=all until the request is too old.
    Ordinary(
        ("ResponseTimeoutError", "RequestTimedOut"),
        ("send",),
        ("outdated {topic} {partition}",),
        LASTS_MS,
        durable=True,
    ),
    # So it does with a request to delete records, also when it has heard that it is no leader any more.
    Ordinary(("RequestTimedOut",), ("delete records of trimmed",), ("outdated trimmed",), LASTS_MS, processes=("a1",)),
    # Batches whose fate is open keep their place until they are too old, and those behind them are never sent.
    Ordinary(("ResponseTimeoutError",), ("send",), ("fail Produce REQUEST_TIMED_OUT",), LASTS_MS),
    # Leaders that refuse it each answer half a second late, the last one when it is too old.
    Ordinary(("ResponseTimeoutError",), ("send",), ("fail Produce 500",), LASTS_MS),
    # Partitions are added to a transaction once the markers of the one before are written, and its messages wait for that.
    Ordinary(("ResponseTimeoutError",), ("send",), ("hold_markers",), LASTS_MS, processes=IN_TRANSACTIONS),
    # A partition has no leader, or memory is full of messages for one that cannot be reached.
    Ordinary(("LeaderNotFoundError", "ProducerQueueFullError"), ("send",), (*UNREACHABLE, *REFUSED), LASTS_MS),
    # The last commit of a member of ZooKeeper's group does not reach the coordinator in time: no rebalance is the cause.
    Ordinary(("OffsetsNotCommitted",), ("stop consumer",), (*UNREACHABLE, *REFUSED), LASTS_MS),
    # The node of an owner stays until its session ends: another member meets it in vain for that long.
    Ordinary(("ZooKeeperError", "PartitionOwnedError"), faults=ZOOKEEPER, lasts_ms=LASTS_MS),
    # All are stopped that were in sync.
    Ordinary(("RequestTimedOut",), ("send",), ("leaderless {topic}",), LASTS_MS),
    Ordinary(("LeaderNotFoundError",), faults=("leaderless",), lasts_ms=LASTS_MS, processes=("a1",)),
    # A consumer of PyKafka 2 asks for all leaders when it starts, and all that were in sync are stopped.
    Ordinary(("LeaderNotFoundError",), ("subscribe",), ("leaderless orders",), LASTS_MS),
    # A topic that a look-up has made anew has one replica, and no leader while that one is stopped.
    Ordinary(("RequestTimedOut",), ("send",), ("stop", "isolate"), LASTS_MS, processes=("p5",)),
    # The preferred leader is away, cut off from the controller, or does not have all yet.
    Ordinary(
        ("PreferredLeaderNotAvailable",),
        ("elect leaders",),
        (*UNREACHABLE, "isolate"),
        LASTS_MS,
        processes=("a1",),
    ),
    # Records are deleted while their partition cannot be fetched for so long that the client raises the next error of it.
    Ordinary(("OffsetOutOfRangeError",), ("poll",), (*UNREACHABLE, *REFUSED), LASTS_MS, processes=("c4", "m4")),
    # A request to join of a static member that was closed meanwhile comes late, and takes the id from its successor: it names
    # no member id yet, so the coordinator takes it for the newer one.
    Ordinary(("FencedInstanceId",), faults=("late JoinGroup", "pause", "latency", "network"), lasts_ms=LASTS_MS),
    # A broker has left the cluster while all of them are asked.
    Ordinary(("BrokerNotAvailable",), ("list",), UNREACHABLE, LASTS_MS, processes=("a1",)),
    # Share sessions end with their connections, and their records cannot be read if a fault damages them.
    Ordinary(
        ("InvalidShareSessionEpoch", "ShareSessionNotFound"),
        ("acquire", "acknowledge"),
        (*UNREACHABLE, *REFUSED, "lose_group", "damage"),
        LASTS_MS,
    ),
    Ordinary(("InvalidMessageError",), ("acquire",), ("damage",), LASTS_MS),
    Ordinary(("MessageSizeTooLarge",), ("send",), ("limit",), LASTS_MS),
    # Dead letters that could not be written in time.
    Ordinary(
        ("DeadLetterError", "RecordNotHandledError"),
        ("dead-letter", "wait", "stop run"),
        (*UNREACHABLE, *REFUSED, "limit tasks.dlq"),
        LASTS_MS,
    ),
    # A commit got no answer, and the next attempt an error that does not say what became of the first: such an InitProducerId
    # has come between them, and ended the transaction.
    Ordinary(
        ("TransactionOutcomeUnknownError",),
        ("commit-transaction", "close producer", "exactly_once"),
        OVERTAKEN,
        LASTS_MS,
    ),
    # An InitProducerId whose answer came late has raised the epoch. In version 2, Kafka's own coordinator refuses an abort so
    # while the markers of the transaction before are due. A late AddPartitionsToTxn opens a transaction while the next one asks
    # for its epoch: before version 2 the coordinator ends it by a new epoch, which nobody gets.
    Ordinary(
        ("ProducerFencedError",),
        ("begin", "abort-transaction", "commit-transaction", "close producer", "exactly_once", "send_offsets"),
        OVERTAKEN,
        LASTS_MS,
    ),
)
