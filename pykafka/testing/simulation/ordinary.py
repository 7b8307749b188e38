"""`ORDINARY`: the errors that calls of programs may fail with, and the faults that have to explain them."""

from __future__ import annotations

from pykafka.testing.checker import Ordinary

#: Faults by which requests or their answers are late or lost, and connections are refused or end.
UNREACHABLE = ("stop", "pause", "hang_up", "cut", "hold", "latency", "network", "cut_all", "throttle")
#: Faults by which a request reaches its broker, and is not done there.
REFUSED = ("isolate", "set_leader", "move_coordinator", "unclean", "fail")
#: How long after its end a fault may make calls fail (ms): a batch waits behind others, and keeps the last error; a client waits
#: before it asks again; a request that was sent before its end may be answered late.
LASTS_MS = 5_000

#: In a seed without faults, calls fail by rebalances alone, and by what the programs do on purpose. An error of another name, or
#: one of these without its fault, is `Kind.UNEXPLAINED_ERROR`.
ORDINARY: tuple[Ordinary, ...] = (
    # What programs do on purpose: they die, and abort transactions.
    Ordinary(("Crash",), ("poll",)),
    Ordinary(("TransactionAbortedError",), ("send",)),
    # Rebalances.
    Ordinary(("ShareLostError", "OffsetsNotCommitted"), ("commit", "close consumer")),
    Ordinary(("ShareLostError", "TransactionAbortableError"), ("send_offsets", "exactly_once")),
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
    # Records that could not be delivered in time.
    Ordinary(
        ("DeliveryUnknownError", "MessagesNotDelivered", "ProducerStoppedException"),
        ("send", "close producer"),
        (*UNREACHABLE, *REFUSED),
        LASTS_MS,
    ),
    Ordinary(("ThrottledError",), ("send",), ("throttle",), LASTS_MS),
    Ordinary(("InvalidRecord",), ("send",), ("fail INVALID_RECORD",), LASTS_MS),
    # Transactions.
    Ordinary(
        ("ConcurrentTransactions", "TransactionAbortableError", "TransactionUnfinishedError"),
        faults=(*UNREACHABLE, *REFUSED, "hold_markers"),
        lasts_ms=LASTS_MS,
    ),
    # Version 2: who aborts while the markers of the transaction before are due is refused so by Kafka's own coordinator, too.
    Ordinary(("ProducerFencedError",), ("abort-transaction",), (*UNREACHABLE, "hold_markers"), LASTS_MS),
)
