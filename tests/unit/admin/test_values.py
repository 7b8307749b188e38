"""The values that calls take and return: results, checks where values enter, and no secrets in any text."""

from __future__ import annotations

import hashlib
import pickle
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    ConfigChange,
    ConfigResource,
    DelegationToken,
    GroupState,
    GroupType,
    HangingTransaction,
    Listing,
    NewTopic,
    OffsetSpec,
    Outcome,
    ProducerState,
    QuotaEntity,
    QuotaName,
    ResourceType,
    Results,
    ScramCredentialInfo,
    ScramMechanism,
    TransactionDescription,
    TransactionState,
    UserScramCredentialUpsertion,
)
from pykafka.admin.configs import as_changes
from pykafka.admin.group_offsets import bounds_wanted, target
from pykafka.admin.results import operations
from pykafka.admin.scram_users import described
from pykafka.admin.transactions import is_hanging
from pykafka.common import TopicPartition
from pykafka.exceptions import AdminError, InvalidConfig, KafkaException, OffsetOutOfRangeError, TopicAlreadyExists
from pykafka.protocol import wire

SECRET = "Secret-0a91ff"


def test_results_are_a_mapping_of_what_succeeded() -> None:
    error = TopicAlreadyExists("there", topic="b")
    results = Results({"a": 1, "b": error, "c": 3})
    assert dict(results) == {"a": 1, "c": 3}
    assert ("a" in results, "b" in results, len(results)) == (True, False, 2)
    assert results.outcomes == [Outcome("a", 1), Outcome("b", None, error), Outcome("c", 3)]
    with pytest.raises(TopicAlreadyExists):
        results["b"]
    with pytest.raises(KeyError):
        results["d"]
    with pytest.raises(AdminError, match=r"1 of 3 items failed.*b: there") as caught:
        results.raise_errors()
    assert caught.value.results is results
    assert caught.value.errors == {"b": error}
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_one_item_raises_its_own_error() -> None:
    with pytest.raises(TopicAlreadyExists):
        Results({"b": TopicAlreadyExists()}).raise_errors()
    Results({"a": None}).raise_errors()
    Results({}).raise_errors()


def test_an_error_of_many_items_names_a_few() -> None:
    errors: dict[str, int | KafkaException] = {f"item-{number}": InvalidConfig("bad") for number in range(9)}
    with pytest.raises(AdminError, match="and 4 more"):
        Results(errors).raise_errors()


def test_a_listing_compares_with_lists() -> None:
    listing = Listing([1, 2], {3: InvalidConfig()})
    assert listing == [1, 2]
    assert (listing[0], listing[1:], len(listing), list(listing.errors)) == (1, (2,), 2, [3])


def test_bad_topics_are_refused_where_they_enter() -> None:
    with pytest.raises(ValueError, match="orders: partitions must be at least 1"):
        NewTopic("orders", 0)
    with pytest.raises(ValueError, match="orders: replication must be at least 1"):
        NewTopic("orders", 1, -1)
    configs = NewTopic("orders", configs={"a": True, "b": 5, "c": ["x", "y"], "d": None}).wire().configs
    assert {one.name: one.value for one in configs} == {"a": "true", "b": "5", "c": "x,y", "d": None}


def test_changes_of_settings() -> None:
    assert as_changes({"a": 1, "b": None}) == [ConfigChange.set("a", 1), ConfigChange.delete("b")]
    with pytest.raises(TypeError, match="ConfigChange"):
        as_changes(["a"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no broker id"):
        _ = ConfigResource(ConfigResource.broker(1).type, "one").broker_id
    assert [str(one) for one in (ConfigResource.broker(None), ConfigResource.topic("t"))] == [
        "broker (default)",
        "topic t",
    ]


def test_places() -> None:
    assert OffsetSpec.at(datetime(2020, 1, 1, tzinfo=UTC)).timestamp(0) == 1_577_836_800_000
    assert OffsetSpec.ago(timedelta(seconds=2)).timestamp(5000) == 3000
    assert OffsetSpec.ago(2).timestamp(1000) == 0
    assert [OffsetSpec.earliest().timestamp(0), OffsetSpec.latest().timestamp(0)] == [-2, -1]
    with pytest.raises(ValueError, match="must not be negative"):
        OffsetSpec.ago(-1)
    with pytest.raises(ValueError, match="must not be negative"):
        OffsetSpec.offset(-1)


@pytest.mark.parametrize(
    ("to", "committed", "after"),
    [
        (OffsetSpec.earliest(), None, 10),
        (OffsetSpec.latest(), 3, 50),
        (OffsetSpec.shift(5), 20, 25),
        (OffsetSpec.shift(-50), 20, 10),
        (OffsetSpec.shift(50), 20, 50),
        (OffsetSpec.offset(50), None, 50),
        (OffsetSpec.at(5), 20, 50),  # no message is that new
    ],
)
def test_where_a_reset_leads(to: OffsetSpec, committed: int | None, after: int) -> None:
    known = {OffsetSpec.earliest(): 10, OffsetSpec.latest(): 50}
    given = {spec: known.get(spec) for spec in bounds_wanted(to)}
    assert target(TopicPartition("t", 0), to, given, committed) == after


def test_a_reset_beyond_the_log() -> None:
    known = {OffsetSpec.earliest(): 10, OffsetSpec.latest(): 50}
    error = target(TopicPartition("t", 0), OffsetSpec.offset(9), known, None)
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.topic, error.partition) == ("t", 0)


def test_names_that_this_client_does_not_know() -> None:
    assert (GroupType.of(""), GroupType.of("Share"), GroupType.of("other")) == (
        GroupType.CLASSIC,
        GroupType.SHARE,
        GroupType.UNKNOWN,
    )
    assert GroupState.of("AwaitingSync") == GroupState.COMPLETING_REBALANCE
    assert GroupState.of("Other") == GroupState.UNKNOWN
    assert TransactionState.of("Other") == TransactionState.UNKNOWN
    assert operations(-(2**31)) is None
    assert operations(1 << 3 | 1 << 8 | 1 << 30) == frozenset({AclOperation.READ, AclOperation.DESCRIBE})


def test_what_hangs() -> None:
    part = TopicPartition("t", 0)
    open_one = HangingTransaction(part, ProducerState(5, 1, 0, 0, 0, 7))

    def known(state: TransactionState, epoch: int = 1, parts: tuple[TopicPartition, ...] = (part,)) -> bool:
        return is_hanging(open_one, TransactionDescription("x", state, 5, epoch, 1000, 0, parts, 1))

    assert is_hanging(open_one, None)
    assert not known(TransactionState.ONGOING)
    assert not known(TransactionState.PREPARE_COMMIT)
    assert known(TransactionState.COMPLETE_COMMIT)
    assert known(TransactionState.ONGOING, epoch=2)
    assert known(TransactionState.ONGOING, parts=())


def test_a_salted_password_is_that_of_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d123588e0f40b4c5ae98c66")
    change = UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_256, "pencil", 4096, salt)
    assert change.salted() == (salt, hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096))
    other = UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_512, "pencil")
    assert other.salted()[0] != other.salted()[0]


def test_no_secret_is_in_any_text() -> None:
    token = DelegationToken("id", SECRET.encode(), "User:a", None, (), 0, 0, 0)
    message = wire.AlterUserScramCredentialsRequest
    values: list[object] = [
        UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_256, SECRET, salt=SECRET.encode()),
        ConfigChange.set("ssl.keystore.password", SECRET),
        token,
        token.login(),
        message(upsertions=[message.Upsertion(name="u", salt=SECRET.encode(), salted_password=SECRET.encode())]),
        wire.CreateDelegationTokenResponse(hmac=SECRET.encode()),
        wire.DescribeDelegationTokenResponse(tokens=[wire.DescribeDelegationTokenResponse.Token(hmac=SECRET.encode())]),
        wire.RenewDelegationTokenRequest(hmac=SECRET.encode()),
        wire.ExpireDelegationTokenRequest(hmac=SECRET.encode()),
        wire.SaslAuthenticateRequest(auth_bytes=SECRET.encode()),
        wire.IncrementalAlterConfigsRequest.Resource.Config(name="ssl.keystore.password", value=SECRET),
        wire.DescribeConfigsResponse.Resource.Config(name="x", value=SECRET),
    ]
    for value in values:
        assert SECRET not in repr(value)
        assert SECRET not in str(value)


def test_texts_for_people() -> None:
    binding = AclBinding(ResourceType.TOPIC, "t", "User:a", AclOperation.READ)
    assert str(binding) == "ALLOW User:a from * READ on TOPIC t"
    assert str(AclFilter(name="t")) == "ACLs with name t"
    assert str(AclFilter()) == "ACLs with anything"
    assert str(QuotaEntity(user="a", client_id=QuotaName.DEFAULT)) == "user a, client-id <default>"
    assert str(ScramMechanism.SCRAM_SHA_256) == "SCRAM-SHA-256"


def test_no_users_are_not_all_users() -> None:
    """Brokers take an empty list for all."""
    nowhere: Any = SimpleNamespace()
    assert dict(Admin(nowhere).describe_user_scram_credentials([])) == {}


def test_a_users_mechanisms_come_in_one_order() -> None:
    """Brokers keep them in a hash map: half of them answer in the other order."""
    answer = wire.DescribeUserScramCredentialsResponse.Result
    info = answer.CredentialInfo
    infos = [info(mechanism=2, iterations=8192), info(mechanism=1, iterations=4096)]
    found = described(answer(user="u", credential_infos=infos))
    assert found == (
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
        ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192),
    )
