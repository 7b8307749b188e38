"""A query whose process cannot connect says so: Spark prints the whole stack, and so the sentence must come soon."""

from __future__ import annotations

import socket
import traceback
from pathlib import Path

import pytest

from pykafka.exceptions import KafkaException
from pykafka.spark import session
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode


@pytest.mark.parametrize("tls", [False, True], ids=["no broker", "no such file"])
def test_the_stack_of_a_failed_connection_is_its_own(tls: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    options = {"kafka.bootstrap.servers": address, "subscribe": "a"}
    if tls:
        options |= {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": str(tmp_path / "ca.pem")}
        options |= {"kafka.ssl.truststore.type": "PEM"}
    with pytest.raises(KafkaException) as failed:
        session.cluster_for(read_options(options, Mode.BATCH_READ).client)
    lines = "".join(traceback.format_exception(failed.value)).splitlines()
    assert ("ca.pem" if tls else address) in lines[-1]
    assert len([line for line in lines if line.startswith("Traceback")]) == 1, lines
