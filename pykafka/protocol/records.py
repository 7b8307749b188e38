"""Record batches, the message format since Kafka 0.11: writing, scanning and reading.

Each part is a module whose .pxd gives compiled code its types: `records_write`, `records_scan`, `records_read`. (A module
with a .pxd could not re-export what that .pxd imports.)
"""

from __future__ import annotations

from pykafka.protocol.records_read import BatchReader
from pykafka.protocol.records_scan import RawBatch, scan
from pykafka.protocol.records_write import RecordBatchBuilder, record_size

__all__ = ["BatchReader", "RawBatch", "RecordBatchBuilder", "record_size", "scan"]
