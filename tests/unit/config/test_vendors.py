"""Vendors' templates of configuration files: taken, with one warning for what has no effect, or refused with a sentence."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from pykafka.config import Configuration, configuration
from pykafka.exceptions import ConfigurationError
from tests.unit.config.products import PRODUCTS
from tests.unit.config.vendors import SECRET, SERVICES, Template

TEMPLATES = {**SERVICES, **PRODUCTS}
NO_EFFECT = "no effect in this client"


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to have the package for Kerberos, and not that of AWS."""
    monkeypatch.setattr("pykafka.security.kerberos._library", lambda: None)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    configuration.reported_keys.clear()


def read(tmp_path: Path, template: Template) -> Configuration:
    path = tmp_path / template.name
    path.write_text(template.text)
    return Configuration.read(path, environment={})


def test_there_are_many() -> None:
    assert len(TEMPLATES) >= 40


@pytest.mark.parametrize("name", [name for name, one in TEMPLATES.items() if not one.refused])
def test_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    template = TEMPLATES[name]
    with caplog.at_level(logging.WARNING):
        found = read(tmp_path, template)
        again = read(tmp_path, template)
    sasl, tls = found.client.get("sasl"), found.client.get("ssl_config")
    assert sasl == template.sasl or type(sasl).__name__ == template.sasl
    assert (tls is None) == (template.tls is None)
    assert {key: getattr(tls, key) for key in template.tls or {}} == (template.tls or {})
    assert found.producer.items() >= template.producer.items()
    assert found.consumer.items() >= template.consumer.items()
    assert again.producer.keys() == found.producer.keys()
    said = "; ".join([*filter(None, [template.ignored]), *(f"unknown: {one}" for one in [template.unknown] if one)])
    told = [record.getMessage() for record in caplog.records]
    path = str(tmp_path / template.name)
    assert told == ([f"configuration {path!r}: {NO_EFFECT}: {said}"] if said else [])
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", [name for name, one in TEMPLATES.items() if one.refused])
def test_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    with pytest.raises(ConfigurationError, match=TEMPLATES[name].refused) as caught:
        read(tmp_path, TEMPLATES[name])
    assert SECRET not in f"{caught.value!r} {caught.value} {caplog.text}"
