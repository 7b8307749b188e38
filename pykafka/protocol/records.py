"""Record batches, the form of messages since Kafka 0.11: writing, scanning and reading them.

The parts stand in modules of their own, from whose .pxd files compiled code takes their types: `records_write`,
`records_scan`, `records_read`. (A module with a .pxd could not hand on what that .pxd has imported.)
"""

from __future__ import annotations

from pykafka.protocol.records_read import BatchReader
from pykafka.protocol.records_scan import RawBatch, scan
from pykafka.protocol.records_write import RecordBatchBuilder, record_size

__all__ = ["BatchReader", "RawBatch", "RecordBatchBuilder", "record_size", "scan"]
