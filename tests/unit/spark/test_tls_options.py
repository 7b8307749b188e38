"""kafka.ssl.*: what is taken of Java's options for TLS, and the sentence for what is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pykafka.security.java_tls import TlsOptions
from pykafka.spark.errors import OptionError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode

READ = {"kafka.bootstrap.servers": "localhost:9093", "subscribe": "a", "kafka.security.protocol": "SSL"}
BODY = "QUJD" * 30
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{BODY[:64]}\n{BODY[64:]}\n-----END CERTIFICATE-----\n"
KEY = CERTIFICATE.replace("CERTIFICATE", "ENCRYPTED PRIVATE KEY")


def tls(**given: str) -> TlsOptions:
    """Return what options (without kafka.ssl., with _ for .) make."""
    raw = {f"kafka.ssl.{name.replace('_', '.')}": text for name, text in given.items()}
    found = read_options({**READ, **raw}, Mode.BATCH_READ).client.tls
    assert found is not None
    return found


def test_plaintext_unless_asked_for() -> None:
    assert read_options({**READ, "kafka.security.protocol": "plaintext"}, Mode.BATCH_READ).client.tls is None
    assert tls() == TlsOptions()
    raw = {name: text for name, text in READ.items() if name != "subscribe"}
    assert write_options(raw, Mode.BATCH_WRITE).client.tls == TlsOptions()


def test_files() -> None:
    found = tls(
        truststore_type="PEM",
        truststore_location="/ca.pem",
        keystore_type="pem",
        keystore_location="/me.pem",
        key_password="secret",
        endpoint_identification_algorithm="",
    )
    assert (found.ca_file, found.identity_file, found.password) == ("/ca.pem", "/me.pem", "secret")
    assert not found.check_hostname
    assert "secret" not in repr(found)


def test_stores() -> None:
    found = tls(
        truststore_location="/trust.p12",
        truststore_password="one",
        keystore_type="PKCS12",
        keystore_location="/me.p12",
        keystore_password="two",
    )
    assert (found.ca_file, found.ca_password) == ("/trust.p12", "one")
    assert (found.identity_file, found.password) == ("/me.p12", "two")
    assert "one" not in repr(found)
    config = found.ssl_config()
    assert (config.cafile, config.ca_password, config.certfile, config.password) == (
        "/trust.p12",
        "one",
        "/me.p12",
        "two",
    )


@pytest.mark.parametrize(
    "flatten", [str, lambda text: text.replace("\n", " "), lambda text: text.replace("\n", "\\n"), str.strip]
)
def test_texts_in_lines_or_in_one(flatten: Callable[[str], str]) -> None:
    found = tls(
        truststore_type="PEM",
        truststore_certificates=flatten(CERTIFICATE + CERTIFICATE),
        keystore_type="PEM",
        keystore_key=flatten(KEY),
        keystore_certificate_chain=flatten(CERTIFICATE),
    )
    assert found.ca_pem == CERTIFICATE + CERTIFICATE
    assert found.identity_pem == KEY + CERTIFICATE
    assert BODY[:20] not in repr(found)


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"enabled_protocols": "TLSv1.3, TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLSv1.3", "enabled_protocols": "TLSv1.3"}, ("TLSv1.3",)),
        # as Kafka had them by default before 2.6
        ({"protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLS", "enabled_protocols": "TLSv1.2,TLSv1.1,TLSv1"}, ("TLSv1.2",)),
    ],
)
def test_versions(given: dict[str, str], versions: tuple[str, ...]) -> None:
    assert tls(**given).versions == versions


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"truststore_location": "/s", "truststore_type": "BCFKS"}, "'kafka.ssl.truststore.type' is 'BCFKS'.*keytool"),
        ({"truststore_certificates": CERTIFICATE}, "set 'kafka.ssl.truststore.type' to PEM"),
        (
            {"truststore_type": "PEM", "truststore_location": "/s", "truststore_password": "x"},
            "'kafka.ssl.truststore.password' has no meaning for PEM",
        ),
        (
            {"truststore_type": "PEM", "truststore_location": "/s", "truststore_certificates": CERTIFICATE},
            "say the same: give one",
        ),
        ({"truststore_type": "PEM", "truststore_certificates": "/ca.pem"}, "'.location' option"),
        ({"keystore_type": "PEM", "keystore_key": KEY}, "belong together"),
        ({"keystore_type": "PEM", "keystore_certificate_chain": CERTIFICATE}, "belong together"),
        ({"enabled_protocols": "TLSv1.1,TLSv1"}, "'kafka.ssl.enabled.protocols' must be of TLSv1.2 and TLSv1.3"),
        ({"protocol": "SSLv3"}, "'kafka.ssl.protocol' must be of TLSv1.2 and TLSv1.3"),
        ({"endpoint_identification_algorithm": "ldaps"}, "must be https or empty"),
        ({"engine_factory_class": "x"}, "refused: it is a Java class"),
        ({"cipher_suites": "x"}, "'kafka.ssl.cipher.suites' is refused"),
    ],
)
def test_what_cannot_be(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        tls(**given)


def test_tls_options_without_tls_are_refused() -> None:
    raw = {**READ, "kafka.ssl.truststore.location": "/ca.pem"}
    del raw["kafka.security.protocol"]
    with pytest.raises(
        OptionError, match=re.escape("'kafka.security.protocol' is PLAINTEXT (its default): set it to SSL")
    ):
        read_options(raw, Mode.BATCH_READ)
