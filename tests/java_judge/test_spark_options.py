"""Every option of Kafka's own client as `kafka.*` of format("pykafka"): taken, warned about, or refused with a reason."""

from __future__ import annotations

import pytest

from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES
from tests.support.spark.taking import MODES, REFUSED, TAKEN, WARNED, outcome

#: Today's client, and that of Spark's connector.
CLIENTS = RELEASES
#: Values for options whose type says too little, and options beside them.
VALUES: dict[str, tuple[str, dict[str, str]]] = {
    "kafka.bootstrap.servers": ("other:1", {}),
    "kafka.acks": ("0", {}),
    "kafka.client.dns.lookup": ("resolve_canonical_bootstrap_servers_only", {}),
    "kafka.compression.type": ("zstd", {}),
    "kafka.compression.gzip.level": ("7", {"kafka.compression.type": "gzip"}),
    "kafka.compression.lz4.level": ("7", {"kafka.compression.type": "lz4"}),
    "kafka.compression.zstd.level": ("7", {"kafka.compression.type": "zstd"}),
    "kafka.fetch.max.bytes": ("1000", {}),
    "kafka.isolation.level": ("read_committed", {}),
    "kafka.metadata.recovery.strategy": ("none", {}),
    "kafka.security.protocol": ("SSL", {}),
    "kafka.ssl.enabled.protocols": ("TLSv1.3", {}),
    "kafka.ssl.endpoint.identification.algorithm": ("", {}),
    "kafka.ssl.protocol": ("TLSv1.2", {}),
}


@pytest.mark.kafka
def test_each_is_taken_or_warned_about_or_refused() -> None:
    found: dict[str, list[str | None]] = {}
    for release in CLIENTS:
        for line in run_source("ConfigNames.java", release).splitlines():
            java_name, kind, default = line.split("\t")
            name = f"kafka.{java_name}"
            text, beside = VALUES.get(name, (another(kind, default), {}))
            found[name] = [outcome(name, text, mode, beside) for mode in MODES]
    assert len(found) > 130
    assert {name: outcomes for name, outcomes in found.items() if None in outcomes} == {}
    # What each of them says.
    assert found["kafka.fetch.max.bytes"] == [TAKEN, TAKEN, WARNED, WARNED]
    assert found["kafka.linger.ms"] == [WARNED] * 4
    assert found["kafka.value.deserializer"] == [REFUSED, REFUSED, WARNED, WARNED]
    assert found["kafka.ssl.cipher.suites"] == [REFUSED] * 4


def another(kind: str, default: str) -> str:
    """Return a value other than the default, by the type of an option."""
    if kind == "BOOLEAN":
        return "false" if default == "true" else "true"
    if kind in ("INT", "LONG", "SHORT"):
        return str(int(default or 0) + 1)
    return "0.5" if kind == "DOUBLE" else "x"
