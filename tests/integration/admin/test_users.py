"""ACLs, SCRAM users, quotas and delegation tokens."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from pykafka import KafkaClient, Scram
from pykafka.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    NewTopic,
    PatternType,
    Permission,
    QuotaEntity,
    QuotaName,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykafka.exceptions import (
    DelegationTokenNotFound,
    DelegationTokenRequestNotAllowed,
    InvalidRequest,
    KafkaException,
    ResourceNotFound,
    SecurityDisabled,
)
from tests.brokers import KafkaCluster
from tests.integration.admin.conftest import unique
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]

PASSWORD = "Pw-of-carol-93c1e7"


def test_acls(keeper: KafkaClient) -> None:
    admin, name = keeper.admin, unique("t")
    read = AclBinding(ResourceType.TOPIC, name, "User:alice", AclOperation.READ)
    deny = AclBinding(
        ResourceType.GROUP, name, "User:bob", AclOperation.ALL, Permission.DENY, "10.0.0.1", PatternType.PREFIXED
    )
    admin.create_acls([read, deny])
    until(keeper.cluster.handler, lambda: admin.describe_acls(AclFilter(name=name)) == sorted([read, deny], key=str))
    assert admin.describe_acls(AclFilter(principal="User:alice", name=name)) == [read]
    assert admin.describe_acls(AclFilter(ResourceType.GROUP, name + "-1", pattern=PatternType.MATCH)) == [deny]
    assert read in admin.describe_acls()
    bad = AclBinding(ResourceType.TOPIC, "", "User:alice", AclOperation.READ)
    results = admin.create_acls([read, bad], raise_errors=False)
    assert list(results) == [read]
    assert isinstance(results.errors[bad], InvalidRequest)
    deleted = admin.delete_acls([AclFilter(name=name), AclFilter(name="no-such-topic")])
    assert list(deleted.values()) == [sorted([read, deny], key=str), []]
    until(keeper.cluster.handler, lambda: admin.describe_acls(AclFilter(name=name)) == [])


def test_acls_need_an_authorizer(admin: Admin) -> None:
    with pytest.raises(SecurityDisabled):
        admin.describe_acls()


def test_scram_users(client3: KafkaClient, admin: Admin) -> None:
    user = unique("u")
    sha256 = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, PASSWORD, iterations=4096)
    sha512 = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, PASSWORD)
    admin.alter_user_scram_credentials([sha256, sha512])

    def found() -> set[ScramCredentialInfo]:
        return set(admin.describe_user_scram_credentials(raise_errors=False).get(user, ()))

    both = {
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192),
    }
    until(client3.cluster.handler, lambda: found() == both)
    admin.alter_user_scram_credentials(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))
    until(client3.cluster.handler, lambda: len(found()) == 1)
    admin.alter_user_scram_credentials(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))
    until(client3.cluster.handler, lambda: not found())
    with pytest.raises(ResourceNotFound, match=user):
        admin.describe_user_scram_credentials(user)
    with pytest.raises(ResourceNotFound, match=user):
        admin.alter_user_scram_credentials(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))


def test_a_user_made_here_logs_in(
    secure_kafka: KafkaCluster, concurrency: Concurrency, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    user = unique("u")
    hosts = secure_kafka.hosts_of("SASL_PLAINTEXT")
    with KafkaClient(secure_kafka.hosts, **concurrency()) as client:
        change = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, PASSWORD)
        salt, salted = change.salted()
        assert PASSWORD not in repr(change)
        client.admin.alter_user_scram_credentials(change)
        until(client.cluster.handler, lambda: user in client.admin.describe_user_scram_credentials())
        with KafkaClient(hosts, **concurrency(), sasl=Scram(user, PASSWORD)) as other:
            assert other.admin.describe_cluster().brokers
        client.admin.alter_user_scram_credentials(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))
        until(client.cluster.handler, lambda: user not in client.admin.describe_user_scram_credentials())

        def is_refused() -> bool:
            with suppress(KafkaException):
                KafkaClient(hosts, **concurrency(), sasl=Scram(user, PASSWORD)).close()
                return False
            return True

        until(client.cluster.handler, is_refused)
        with pytest.raises(KafkaException) as caught:
            KafkaClient(hosts, **concurrency(), sasl=Scram(user, PASSWORD))
    assert PASSWORD not in repr(caught.value)
    assert PASSWORD not in caplog.text
    assert repr(salted) not in caplog.text
    assert len(salt) >= 16


def test_quotas(client3: KafkaClient, admin: Admin) -> None:
    user = unique("u")
    one, other = QuotaEntity(user=user), QuotaEntity(user=user, client_id=QuotaName.DEFAULT)
    admin.alter_client_quotas(
        {one: {"producer_byte_rate": 1e6, "request_percentage": 50}, other: {"consumer_byte_rate": 2}}
    )

    def found(strict: bool = False) -> object:
        return admin.describe_client_quotas(QuotaEntity(user=user), strict=strict)

    all_of_them = {one: {"producer_byte_rate": 1e6, "request_percentage": 50.0}, other: {"consumer_byte_rate": 2.0}}
    until(client3.cluster.handler, lambda: found() == all_of_them)
    assert list(admin.describe_client_quotas(QuotaEntity(user=user), strict=True)) == [one]
    assert other in admin.describe_client_quotas(QuotaEntity(user=QuotaName.ANY, client_id=QuotaName.DEFAULT))
    admin.alter_client_quotas({one: {"producer_byte_rate": None}}, validate_only=True)
    results = admin.alter_client_quotas(
        {one: {"producer_byte_rate": None, "request_percentage": None}, QuotaEntity(user=user + "x"): {"nonsense": 1}},
        raise_errors=False,
    )
    assert list(results) == [one]
    assert isinstance(results.errors[QuotaEntity(user=user + "x")], InvalidRequest)
    until(client3.cluster.handler, lambda: found() == {other: {"consumer_byte_rate": 2.0}})
    admin.alter_client_quotas({other: {"consumer_byte_rate": None}})
    for value in (float("nan"), float("inf")):  # brokers would take them
        with pytest.raises(ValueError, match="finite"):
            admin.alter_client_quotas({QuotaEntity(user="carol"): {"producer_byte_rate": value}})


def test_delegation_tokens(secure_kafka: KafkaCluster, concurrency: Concurrency) -> None:
    hosts = secure_kafka.hosts_of("SASL_PLAINTEXT")
    alice = Scram("alice", dict(secure_kafka.sasl.users)["alice"]) if secure_kafka.sasl is not None else None
    with KafkaClient(hosts, **concurrency(), sasl=alice) as client:
        admin = client.admin
        token = admin.create_delegation_token(renewers="User:bob", max_lifetime_ms=3_600_000)
        assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
        assert token.hmac.hex() not in repr(token)
        assert repr(token.hmac) not in repr(token)
        until(
            client.cluster.handler,
            lambda: token.token_id in {one.token_id for one in admin.describe_delegation_tokens()},
        )
        assert admin.describe_delegation_tokens("User:alice")
        assert admin.renew_delegation_token(token, 60_000) <= token.max_ms
        with KafkaClient(hosts, **concurrency(), sasl=token.login()) as other:
            assert other.admin.describe_cluster().brokers
            with pytest.raises(DelegationTokenRequestNotAllowed):
                other.admin.create_delegation_token()
        admin.expire_delegation_token(token)
        with pytest.raises(DelegationTokenNotFound):
            admin.renew_delegation_token(b"no such token")
    with KafkaClient(secure_kafka.hosts) as client, pytest.raises(DelegationTokenRequestNotAllowed):
        client.admin.create_delegation_token()


def test_bad_credentials_are_refused_where_they_enter() -> None:
    with pytest.raises(ValueError, match="4096 to 16384"):
        UserScramCredentialUpsertion("carol", ScramMechanism.SCRAM_SHA_256, PASSWORD, iterations=1)
    with pytest.raises(ValueError, match="must not be empty"):
        UserScramCredentialUpsertion("carol", ScramMechanism.SCRAM_SHA_256, "")


def test_an_acl_keeps_a_user_out(secure_kafka: KafkaCluster) -> None:
    hosts, name = secure_kafka.hosts_of("SASL_PLAINTEXT"), unique("t")
    users = dict(secure_kafka.sasl.users) if secure_kafka.sasl is not None else {}
    with KafkaClient(secure_kafka.hosts) as client, KafkaClient(hosts, sasl=Scram("bob", users["bob"])) as bob:
        client.admin.create_topics(NewTopic(name, 1, 1))
        client.admin.create_acls(AclBinding(ResourceType.TOPIC, name, "User:bob", AclOperation.ALL, Permission.DENY))

        def is_kept_out() -> bool:
            return not bob.admin.describe_topics(name, raise_errors=False)

        until(client.cluster.handler, is_kept_out)
        client.admin.delete_acls(AclFilter(name=name))
        client.admin.delete_topics(name)
