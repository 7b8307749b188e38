"""`--config FILE`: it carries every setting of connections and metadata, as there are no options for most of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pykafka.cli import options
from pykafka.cli.app import tools
from pykafka.metadata.options import MetadataSettings
from pykafka.network.options import ConnectionSettings
from pykafka.network.proxies import Proxy

TEXTS = {
    "client_dns_lookup": "resolve_canonical_bootstrap_servers_only",
    "metadata_recovery_strategy": "none",
    "proxy": "socks5h://me:secret@127.0.0.1:1",
    "client_rack": "north",
    "client_id": "me",
    "allow_cleartext_credentials": True,
}


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def session(path: Path) -> options.Session:
    """Return the session of a command with this file."""
    with tools.make_context("kafka-tools", ["--config", str(path), "doctor"]) as context:
        return options.session_of(context)


@pytest.mark.parametrize("between", [".", "_", "-"])
def test_a_file_carries_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str) -> None:
    """By Java's names, and by ours."""
    names = {one.name for kind in (ConnectionSettings, MetadataSettings) for one in fields(kind)} - {
        "ssl_config",
        "sasl",
        "allow_cleartext_credentials",
    }
    wanted: dict[str, Any] = {name: 7 + index for index, name in enumerate(sorted(names))} | TEXTS
    wanted |= {"allow_cleartext_credentials": True, "metadata_cluster_check_enable": False}
    path = tmp_path / "c.properties"
    path.write_text("".join(f"{name.replace('_', between)}={_text(value)}\n" for name, value in wanted.items()))
    found = session(path)
    made: dict[str, Any] = {}
    monkeypatch.setattr("pykafka.client.KafkaClient", lambda **given: made.update(given))
    found.client()
    assert {name: made.get(name) for name in wanted} == wanted
    for name in names & {one.name for one in fields(ConnectionSettings)} - {"proxy"}:
        assert getattr(found.settings, name) == wanted[name]
    assert isinstance(found.settings.proxy, Proxy)
    assert MetadataSettings.of(made) != MetadataSettings()


def test_a_file_carries_tls_and_credentials(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="x";\n'
    )
    settings = session(path).settings
    assert settings.ssl_config is not None
    assert settings.sasl is not None
    assert settings.sasl.name == "PLAIN"
