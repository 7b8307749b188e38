"""Users and delegation tokens that one client makes and another one uses."""

from __future__ import annotations

import uuid

import pytest

from pykafka import KafkaClient, Scram
from pykafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.handlers import Handler
from pykafka.security import DelegationToken
from tests.brokers import KafkaCluster
from tests.integration.security.test_other_clients import produce, settings
from tests.support.credentials import change_user, delegation_token
from tests.support.logins import eventually, log_in, logs_in

pytestmark = [pytest.mark.kafka, pytest.mark.needs("scram users"), pytest.mark.timeout(400)]

PASSWORD = "Päss, wörd = 3a91"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_of_this_client(secure_kafka: KafkaCluster, handler: Handler, mechanism: str) -> None:
    """Commas and equals signs are escaped in names; passwords go as UTF-8. librdkafka logs in with them, too."""
    name = f"o=hara,{uuid.uuid4().hex[:8]}"
    kind = ScramMechanism[mechanism.replace("-", "_")]
    with KafkaClient(secure_kafka.hosts, handler=handler) as client:
        client.admin.alter_user_scram_credentials(UserScramCredentialUpsertion(name, kind, PASSWORD))
        ours = Scram(name, PASSWORD, mechanism)
        eventually(lambda: logs_in(secure_kafka, "SASL_SSL", ours))
        theirs = settings(secure_kafka, "SASL_SSL", mechanism, PASSWORD) | {"sasl.username": name}
        assert produce(theirs) is None
        client.admin.alter_user_scram_credentials(UserScramCredentialDeletion(name, kind))
        eventually(lambda: not logs_in(secure_kafka, "SASL_SSL", ours))


def test_a_user_of_kafka_configs(secure_kafka: KafkaCluster) -> None:
    name = f"user-{uuid.uuid4().hex[:8]}"
    change_user(secure_kafka, name, "SCRAM-SHA-512", "Pw-of-tools-77ab")
    eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", Scram(name, "Pw-of-tools-77ab")))


def test_a_delegation_token_of_the_java_client(secure_kafka: KafkaCluster) -> None:
    token = delegation_token(secure_kafka)
    sasl = DelegationToken(token.token_id, token.hmac, "SCRAM-SHA-256")
    eventually(lambda: logs_in(secure_kafka, "SASL_SSL", sasl))
    assert logs_in(secure_kafka, "SASL_SSL", DelegationToken(token.token_id, token.hmac, "SCRAM-SHA-512"))
    with pytest.raises(SaslAuthenticationFailed, match="delegation token"):
        log_in(secure_kafka, "SASL_SSL", DelegationToken(token.token_id, "AAAA" + token.hmac[4:]))


def test_a_delegation_token_of_this_client(secure_kafka: KafkaCluster, handler: Handler) -> None:
    with log_in(secure_kafka, "SASL_PLAINTEXT", handler=handler) as owner:
        token = owner.admin.create_delegation_token()
        sasl = token.login("SCRAM-SHA-256")
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))
        owner.admin.expire_delegation_token(token)
        eventually(lambda: not logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))
