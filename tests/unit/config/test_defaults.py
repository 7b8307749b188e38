"""The defaults of a configuration, beside the arguments of producers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykafka.common import CompressionType
from pykafka.producer import Producer
from pykafka.topic import Topic

ZSTD, GZIP = CompressionType.ZSTD, CompressionType.GZIP


@pytest.mark.parametrize(
    ("defaults", "given", "wanted"),
    [
        ({"compression": ZSTD, "compression_level": 5}, {"compression": GZIP}, {"compression": GZIP}),
        (
            {"compression": ZSTD, "compression_level": 5},
            {"compression": ZSTD},
            {"compression": ZSTD, "compression_level": 5},
        ),
        ({"compression_level": 5}, {"compression": GZIP}, {"compression": GZIP, "compression_level": 5}),
        (
            {"compression": ZSTD, "compression_level": 5},
            {"compression": GZIP, "compression_level": 6},
            {"compression": GZIP, "compression_level": 6},
        ),
    ],
)
def test_a_level_is_one_of_its_codec(defaults: dict[str, Any], given: dict[str, Any], wanted: dict[str, Any]) -> None:
    class Cluster:
        pass

    cluster, topic = Cluster(), object.__new__(Topic)
    cluster.defaults = {"producer": defaults}  # type: ignore[attr-defined]
    topic._cluster = cast(Any, cluster)
    assert topic._with_defaults("producer", Producer, given) == wanted
