"""Programs of administrators: configurations, records that are deleted, topics, partitions that move, features."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from tests.conformance.programs.common import make_topic, topic_id, write
from tests.conformance.programs.permissions import say
from tests.conformance.speaker import HungUp, Speaker

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def ends(speaker: Speaker, kind: type[Request[Any]]) -> list[int]:
    """Return the lowest and the highest version of an API; none if the broker does not have it."""
    versions = speaker.versions(kind)
    return sorted({*versions[:1], *versions[-1:]})


def configs_of_topics(speaker: Speaker) -> None:
    """Describe and change configurations, in good and bad ways."""
    if not speaker.has(wire.DescribeConfigsRequest):
        return
    make_topic(speaker, "configs")
    describe, alter, more = wire.DescribeConfigsRequest, wire.AlterConfigsRequest, wire.IncrementalAlterConfigsRequest
    keys = ["cleanup.policy", "file.delete.delay.ms", "segment.index.bytes", "no.such.key"]

    def show(label: str, kind: int, name: str, asked: list[str] | None) -> None:
        for version in ends(speaker, describe):
            resource = describe.Resource(resource_type=kind, resource_name=name, configuration_keys=asked)
            say(speaker, label, describe(resources=[resource], include_synonyms=version >= 1), version)

    def replace(label: str, kind: int, name: str, values: dict[str, str | None], trial: bool = False) -> None:
        rows = [alter.Resource.Config(name=key, value=value) for key, value in values.items()]
        resource = alter.Resource(resource_type=kind, resource_name=name, configs=rows)
        for version in ends(speaker, alter):
            say(speaker, label, alter(resources=[resource], validate_only=trial), version)

    def change(label: str, kind: int, name: str, *changes: tuple[str, int, str | None], trial: bool = False) -> None:
        rows = [more.Resource.Config(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = more.Resource(resource_type=kind, resource_name=name, configs=rows)
        # Earlier brokers take into a list what it has already.
        for version in ends(speaker, more) if speaker.numbers >= (3,) else speaker.versions(more)[-1:]:
            say(speaker, label, more(resources=[resource], validate_only=trial), version)

    show("new", TOPIC, "configs", keys)
    for version in ends(speaker, describe):
        all_keys = describe.Resource(resource_type=TOPIC, resource_name="configs", configuration_keys=None)
        found = speaker.ask(describe(resources=[all_keys]), version).results[0]
        speaker.note(f"all keys: DescribeConfigs v{version}", [found.error_code, len(found.configs) > 15])
    show("a topic that is not there", TOPIC, "configs-none", keys)
    show("a name that cannot be", TOPIC, "con/figs", keys)
    if speaker.numbers >= (2,):  # earlier ones answer with another type
        show("a type that is none", 99, "configs", keys)
    show("a broker that is not there", BROKER, "999", keys)
    show("a broker that is none", BROKER, "one", keys)
    replace("a trial", TOPIC, "configs", {"file.delete.delay.ms": "5000"}, trial=True)
    show("after the trial", TOPIC, "configs", keys)
    replace("two values", TOPIC, "configs", {"file.delete.delay.ms": "5000", "cleanup.policy": "compact"})
    show("after that", TOPIC, "configs", keys)
    replace("one value", TOPIC, "configs", {"file.delete.delay.ms": "6000"})
    show("after that", TOPIC, "configs", keys)
    replace("a key that is none", TOPIC, "configs", {"no.such.key": "1"})
    if speaker.numbers >= (2,):
        replace("a value that cannot be", TOPIC, "configs", {"file.delete.delay.ms": "many"})
        replace("a topic that is not there", TOPIC, "configs-none", {"file.delete.delay.ms": "6000"})
    change("set", TOPIC, "configs", ("file.delete.delay.ms", 0, "7000"), ("delete.retention.ms", 0, "99000"))
    change("append", TOPIC, "configs", ("cleanup.policy", 2, "compact"))
    show("after that", TOPIC, "configs", [*keys, "delete.retention.ms"])
    if speaker.numbers >= (3,):
        change("append what is there", TOPIC, "configs", ("cleanup.policy", 2, "compact"))
    change("subtract", TOPIC, "configs", ("cleanup.policy", 3, "delete"))
    change("subtract what is not there", TOPIC, "configs", ("cleanup.policy", 3, "delete"))
    show("after that", TOPIC, "configs", keys)
    change("delete", TOPIC, "configs", ("file.delete.delay.ms", 1, None), ("cleanup.policy", 1, None))
    change("delete what is not set", TOPIC, "configs", ("segment.bytes", 1, None))
    show("after that", TOPIC, "configs", keys)
    change("append to a number", TOPIC, "configs", ("file.delete.delay.ms", 2, "1"))
    change("a key twice", TOPIC, "configs", ("file.delete.delay.ms", 0, "8000"), ("file.delete.delay.ms", 0, "9000"))
    change("no value", TOPIC, "configs", ("file.delete.delay.ms", 0, None))
    change("an operation that is none", TOPIC, "configs", ("file.delete.delay.ms", 9, "1"))
    change("a key that is none", TOPIC, "configs", ("no.such.key", 0, "1"))
    change("a value that cannot be", TOPIC, "configs", ("cleanup.policy", 0, "keep"))
    change("a topic that is not there", TOPIC, "configs-none", ("file.delete.delay.ms", 0, "8000"))
    change("a trial", TOPIC, "configs", ("file.delete.delay.ms", 0, "8000"), trial=True)
    change("a type that is none", 99, "configs", ("file.delete.delay.ms", 0, "8000"))
    change("a broker's, fixed", BROKER, "", ("node.id", 0, "7"))
    change("a broker that is not there", BROKER, "999", ("log.cleaner.threads", 0, "1"))
    change("a logger that is none", LOGGER, "999", ("kafka", 0, "INFO"))
    if speaker.numbers >= (4,):
        change("a group's", GROUP, "configs-group", ("consumer.session.timeout.ms", 0, "50000"))
        change("a group's, too short", GROUP, "configs-group", ("consumer.session.timeout.ms", 0, "1"))
        change("of a group without a name", GROUP, "", ("consumer.session.timeout.ms", 0, "50000"))
        show("a group", GROUP, "configs-group", ["consumer.session.timeout.ms", "no.such.key"])
    if speaker.has(wire.ListConfigResourcesRequest):
        change("metrics", METRICS, "configs-metrics", ("interval.ms", 0, "60000"))
        change("metrics, too often", METRICS, "configs-metrics", ("interval.ms", 0, "1"))
        show("metrics", METRICS, "configs-metrics", [])
        _listed(speaker)
        change("no metrics", METRICS, "configs-metrics", ("interval.ms", 1, None))
        change("no group's", GROUP, "configs-group", ("consumer.session.timeout.ms", 1, None))
        _listed(speaker)


def _listed(speaker: Speaker) -> None:
    api = wire.ListConfigResourcesRequest
    for version in ends(speaker, api):
        for kinds in ([], [TOPIC], [GROUP, METRICS], [99]) if version else ([],):
            found = speaker.ask(api(resource_types=kinds), version)
            mine = [
                [one.resource_type, one.resource_name]
                for one in found.config_resources
                if one.resource_name.startswith("configs")
            ]
            speaker.note(f"types {kinds}: ListConfigResources v{version}", [found.error_code, sorted(mine)])


def deletion_of_records(speaker: Speaker) -> None:
    """Delete records before an offset: all, none, too many, of what is not there, of a compacted topic."""
    api = wire.DeleteRecordsRequest
    if not speaker.has(api):
        return
    create = wire.CreateTopicsRequest
    config = create.Topic.Config(name="cleanup.policy", value="compact")
    compacted = create.Topic(name="records-compacted", num_partitions=1, replication_factor=1, configs=[config])
    speaker.ask(create(topics=[compacted], timeout_ms=10_000))
    make_topic(speaker, "records-compacted")
    for version in ends(speaker, api):
        topic = f"records-{version}"
        make_topic(speaker, topic)
        write(speaker, topic, ["a", "b", "c", "d"])
        for label, name, index, offset in (
            ("none", topic, 0, 0),
            ("two", topic, 0, 2),
            ("fewer", topic, 0, 1),
            ("too many", topic, 0, 9),
            ("before the first one", topic, 0, -2),
            ("all", topic, 0, -1),
            ("no partition", topic, 7, 0),
            ("no topic", "records-none", 0, 0),
            ("a compacted topic", "records-compacted", 0, 0),
        ):
            parts = [api.Topic.Partition(partition_index=index, offset=offset)]
            say(speaker, label, api(topics=[api.Topic(name=name, partitions=parts)], timeout_ms=5_000), version)


def quotas(speaker: Speaker) -> None:
    """Describe and change quotas of users and clients."""
    alter, describe = wire.AlterClientQuotasRequest, wire.DescribeClientQuotasRequest
    if not speaker.has(alter):
        return
    entry, rate = alter.Entry, "consumer_byte_rate"

    def change(
        label: str, who: list[tuple[str, str | None]], key: str, value: float | None, trial: bool = False
    ) -> None:
        entity = [entry.Entity(entity_type=kind, entity_name=name) for kind, name in who]
        op = entry.Op(key=key, value=value or 0.0, remove=value is None)
        for version in ends(speaker, alter):
            say(speaker, label, alter(entries=[entry(entity=entity, ops=[op])], validate_only=trial), version)

    def show(label: str, strict: bool, *components: tuple[str, int, str | None]) -> None:
        rows = [describe.Component(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
        for version in ends(speaker, describe):
            say(speaker, label, describe(components=rows, strict=strict), version)

    both: list[tuple[str, str | None]] = [("user", "quota-user"), ("client-id", "quota-client")]
    change("a trial", both[:1], rate, 1000.0, trial=True)
    change("a user's", both[:1], rate, 1000.0)
    change("both", both, "producer_byte_rate", 2000.0)
    change("a client's", both[1:], "request_percentage", 50.5)
    speaker.wait(0.3)
    show("one user", False, ("user", 0, "quota-user"))
    show("one user alone", True, ("user", 0, "quota-user"))
    show("both", True, ("user", 0, "quota-user"), ("client-id", 0, "quota-client"))
    show("any client of the user", False, ("user", 0, "quota-user"), ("client-id", 2, None))
    show("nobody", False, ("user", 0, "quota-none"))
    show("the default user", False, ("user", 1, None))
    if speaker.numbers >= (4,):  # earlier ones fail
        show("a match that is none", False, ("user", 9, None))
    show("a kind that is none", False, ("person", 0, "quota-user"))
    show("a kind twice", False, ("user", 0, "quota-user"), ("user", 0, "quota-user"))
    show("no kind", False, ("", 0, "quota-user"))
    change("a key that is none", both[:1], "no_such_rate", 1.0)
    change("too little", both[:1], rate, -1.0)
    if speaker.numbers >= (4,):  # ZooKeeper takes it
        change("zero", both[:1], "request_percentage", 0.0)
    change("half of a percent, a trial", both[:1], "request_percentage", 0.5, trial=True)
    change("half of a connection", [("ip", "127.0.0.9")], "connection_creation_rate", 0.5)
    change("an address that is none", [("ip", "not an address")], "connection_creation_rate", 5.0)
    change("bytes of an address", [("ip", "127.0.0.9")], rate, 5.0)
    change("an address and a user", [*both[:1], ("ip", "127.0.0.9")], rate, 5.0)
    change("nothing that is whole", both[:1], rate, 0.5)
    change("nobody's", [], rate, 1.0)
    change("a kind that is none", [("person", "quota-user")], rate, 1.0)
    change("a kind twice", [*both[:1], *both[:1]], rate, 1.0)
    change("no name", [("user", "")], rate, 1.0)
    for who, key in ((both[:1], rate), (both, "producer_byte_rate"), (both[1:], "request_percentage")):
        change("remove", who, key, None)
    change("remove what is not there", both[:1], rate, None)
    speaker.wait(0.3)
    show("one user", False, ("user", 0, "quota-user"))


def credentials(speaker: Speaker) -> None:
    """Describe and change the SCRAM credentials of users."""
    alter, describe = wire.AlterUserScramCredentialsRequest, wire.DescribeUserScramCredentialsRequest
    if not speaker.has(alter):
        return

    def show(label: str, names: list[str]) -> None:
        say(speaker, label, describe(users=[describe.User(name=name) for name in names]))

    def put(label: str, name: str, mechanism: int, iterations: int) -> Any:
        one = alter.Upsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )
        if label:
            say(speaker, label, alter(upsertions=[one], deletions=[]))
        return one

    def remove(label: str, name: str, mechanism: int) -> Any:
        one = alter.Deletion(name=name, mechanism=mechanism)
        if label:
            say(speaker, label, alter(upsertions=[], deletions=[one]))
        return one

    show("nobody", ["scram-none"])
    put("new", "scram", 1, 4096)
    put("the other mechanism", "scram", 2, 8192)
    put("too few iterations", "scram", 1, 100)
    put("too many iterations", "scram", 1, 20_000)
    put("a mechanism that is none", "scram", 9, 4096)
    put("no name", "", 1, 4096)
    speaker.wait(0.3)
    show("both", ["scram"])
    show("twice", ["scram", "scram"])
    show("one and nobody", ["scram", "scram-none"])
    show("no name", [""])
    remove("nobody", "scram-none", 1)
    remove("a mechanism that is none", "scram", 9)
    both = alter(upsertions=[put("", "scram", 1, 5000)], deletions=[remove("", "scram", 1)])
    say(speaker, "put and removed at once", both)
    for mechanism in (1, 2, 2):
        remove("remove", "scram", mechanism)
    speaker.wait(0.3)
    show("none left", ["scram"])


def moves_of_partitions(speaker: Speaker) -> None:
    """Elect leaders, and move partitions, on one broker: all is where it has to be, or cannot be."""
    elect, alter, listed = (
        wire.ElectLeadersRequest,
        wire.AlterPartitionReassignmentsRequest,
        wire.ListPartitionReassignmentsRequest,
    )
    if not speaker.has(elect):
        return
    make_topic(speaker, "moves", 2)
    for version in ends(speaker, elect):
        kinds = (0, 1) if speaker.numbers < (4,) else (0, 1, 9)  # earlier ones fail at the last one
        for kind in kinds if version else (0,):
            for name, indexes in (("moves", [0, 1]), ("moves", [7]), ("moves-none", [0])):
                rows = [elect.TopicPartition(topic=name, partitions=indexes)]
                request = elect(election_type=kind, topic_partitions=rows, timeout_ms=5_000)
                say(speaker, f"{name} {indexes}, type {kind}", request, version)
    if not speaker.has(alter):
        return
    node = speaker.ask(wire.MetadataRequest(topics=[])).brokers[0].node_id
    for version in ends(speaker, alter):
        cases: list[tuple[str, str, int, list[int] | None]] = [
            ("no move", "moves", 0, [node]),
            ("a broker that is not there", "moves", 0, [999]),
            ("twice on a broker", "moves", 0, [node, node]),
            ("nowhere", "moves", 0, []),
            ("cancel what is not under way", "moves", 0, None),
            ("no partition", "moves", 7, [node]),
            ("no topic", "moves-none", 0, [node]),
        ]
        for label, name, index, replicas in cases:
            parts = [alter.Topic.Partition(partition_index=index, replicas=replicas)]
            say(speaker, label, alter(topics=[alter.Topic(name=name, partitions=parts)], timeout_ms=5_000), version)
    for label, topics in (
        ("all", None),
        ("one", [listed.Topic(name="moves", partition_indexes=[0])]),
        ("not there", [listed.Topic(name="moves-none", partition_indexes=[0])]),
    ):
        say(speaker, label, listed(topics=topics, timeout_ms=5_000))


def the_cluster(speaker: Speaker) -> None:
    """Describe brokers, directories, partitions of topics, the quorum; change features; look for a metrics plugin; log in."""
    make_topic(speaker, "cluster-b", 3)
    make_topic(speaker, "cluster-a", 2)
    _brokers(speaker)
    _topics(speaker)
    quorum = wire.DescribeQuorumRequest
    if speaker.has(quorum):
        for version in ends(speaker, quorum):
            for name, index in (("cluster-a", 0), ("__cluster_metadata", 7)):
                parts = [quorum.Topic.Partition(partition_index=index)]
                request = quorum(topics=[quorum.Topic(topic_name=name, partitions=parts)])
                found = speaker.ask(request, version)
                rows = [[one.topic_name, [part.error_code for part in one.partitions]] for one in found.topics]
                speaker.note(f"{name}-{index}: DescribeQuorum v{version}", [found.error_code, rows])
    features = wire.UpdateFeaturesRequest
    if speaker.has(features):
        for version in ends(speaker, features):
            for label, name, level, kind in (
                ("a feature that is none", "no.such.feature", 1, 1),
                ("a level that is none", "metadata.version", 999, 1),
                ("a level below", "metadata.version", 1, 1),
                ("a kind of change that is none", "metadata.version", 1, 9),
            ):
                update = features.FeatureUpdate(feature=name, max_version_level=level)
                if version:
                    update.upgrade_type = kind
                say(speaker, label, features(feature_updates=[update], timeout_ms=5_000), version)
            say(speaker, "no feature", features(feature_updates=[], timeout_ms=5_000), version)
    if speaker.has(wire.GetTelemetrySubscriptionsRequest):
        for one in (UUID(int=0), UUID(int=5)):
            say(speaker, f"instance {one.int}", wire.GetTelemetrySubscriptionsRequest(client_instance_id=one))
            push = wire.PushTelemetryRequest(client_instance_id=one, subscription_id=3, metrics=b"")
            say(speaker, f"instance {one.int}", push)
    _logins(speaker)


def _brokers(speaker: Speaker) -> None:
    describe, dirs = wire.DescribeClusterRequest, wire.DescribeLogDirsRequest
    if speaker.has(describe):
        for version in ends(speaker, describe):
            for kind in (1, 2, 9) if version else (1,):
                found = speaker.ask(describe(endpoint_type=kind), version)
                told = [found.error_code, len(found.brokers), found.cluster_authorized_operations]
                speaker.note(f"endpoints {kind}: DescribeCluster v{version}", told)
    if speaker.has(dirs):
        for version in ends(speaker, dirs):
            for label, topics in (
                ("one", [dirs.Topic(topic="cluster-b", partitions=[1, 0])]),
                ("not there", [dirs.Topic(topic="cluster-none", partitions=[0])]),
                ("no partition", [dirs.Topic(topic="cluster-b", partitions=[7])]),
                ("none", []),
            ):
                result = speaker.ask(dirs(topics=topics), version)
                rows = [
                    [one.error_code, topic.name, sorted(part.partition_index for part in topic.partitions)]
                    for one in result.results
                    for topic in one.topics
                    if topic.partitions
                ]
                speaker.note(f"{label}: DescribeLogDirs v{version}", [result.error_code, len(result.results), rows])


def _topics(speaker: Speaker) -> None:
    api = wire.DescribeTopicPartitionsRequest
    if not speaker.has(api):
        return
    topic_id(speaker, "cluster-a")
    topics = [api.Topic(name=name) for name in ("cluster-b", "cluster-a", "cluster-none", "a/b")]
    cursors = [
        None,
        ("cluster-a", 1),
        ("cluster-b", 0),
        ("cluster-aa", 2),
        ("cluster-z", 0),
        ("cluster-b", 9),
        ("cluster-a", -1),
    ]
    for limit in (100, 3, 1, 0, -1):
        for at in cursors if limit in (100, 3) else [None]:
            cursor = None if at is None else api.Cursor(topic_name=at[0], partition_index=at[1])
            label = f"limit {limit}, cursor {at}"
            request = api(topics=topics, response_partition_limit=limit, cursor=cursor)
            try:
                found = speaker.ask(request)
            except HungUp:
                speaker.note(label, "hung up")
                continue
            rows = [
                [one.error_code, one.name, [part.partition_index for part in one.partitions]] for one in found.topics
            ]
            following = found.next_cursor and [found.next_cursor.topic_name, found.next_cursor.partition_index]
            speaker.note(label, [rows, following])


def _logins(speaker: Speaker) -> None:
    handshake, login = wire.SaslHandshakeRequest, wire.SaslAuthenticateRequest
    for version in ends(speaker, handshake):
        for mechanism in ("PLAIN", "NONE", ""):
            found = speaker.beside().ask(handshake(mechanism=mechanism), version)
            listed = found.mechanisms if speaker.numbers >= (1,) else []  # earlier ones name GSSAPI on all ports
            speaker.note(f"mechanism {mechanism!r}: SaslHandshake v{version}", [found.error_code, listed])
    for version in ends(speaker, login):
        say(speaker.beside(), "log in", login(auth_bytes=b"\0a\0b"), version)


def acls(speaker: Speaker) -> None:
    """Create, describe and delete ACLs of somebody else, in good and bad ways."""
    create, describe, delete = wire.CreateAclsRequest, wire.DescribeAclsRequest, wire.DeleteAclsRequest
    if not speaker.has(create):
        return
    somebody = "User:acl-somebody"
    cases: list[tuple[str, dict[str, Any]]] = [
        ("good", {}),
        ("again", {}),
        ("denied", {"permission_type": 2}),
        ("a group", {"resource_type": 3, "operation": 3}),
        ("any topic", {"resource_name": "*"}),
        ("no name", {"resource_name": ""}),
        ("no colon", {"principal": "somebody"}),
        ("any type", {"resource_type": 1}),
        ("a type that is none", {"resource_type": 99}),
        ("any operation", {"operation": 1}),
        ("an operation that is none", {"operation": 99}),
        ("any permission", {"permission_type": 1}),
        ("another cluster", {"resource_type": 4, "resource_name": "other"}),
        ("an operation that topics do not have", {"operation": 12}),
        ("any pattern", {"resource_pattern_type": 1}),
        ("a pattern that matches", {"resource_pattern_type": 2}),
        ("a prefix", {"resource_pattern_type": 4, "resource_name": "acl-so"}),
    ]
    for version in ends(speaker, create):
        for label, changes in cases:
            if version == 0 and "resource_pattern_type" in changes:
                continue
            if speaker.numbers < (2,) and label in ("any type", "any operation", "any permission"):
                continue  # which brokers of then refuse otherwise, or cannot read
            made: dict[str, Any] = {
                "resource_type": 2,
                "resource_name": "acl-some",
                "resource_pattern_type": 3,
                "principal": somebody,
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
            say(speaker, label, create(creations=[create.Creation(**(made | changes))]), version)
    speaker.wait(0.5)  # brokers hear of it one after another
    filters: list[tuple[str, dict[str, Any]]] = [
        ("all", {}),
        ("topics", {"resource_type_filter": 2}),
        ("one", {"resource_type_filter": 2, "resource_name_filter": "acl-some"}),
        ("one by literal", {"resource_name_filter": "acl-some", "pattern_type_filter": 3}),
        ("all that match", {"resource_type_filter": 2, "resource_name_filter": "acl-some-1", "pattern_type_filter": 2}),
        ("denied", {"permission_type": 2}),
        ("reads", {"operation": 3, "host_filter": "*"}),
        ("another host", {"host_filter": "127.0.0.1"}),
        ("nobody", {"principal_filter": "User:acl-nobody"}),
        ("no colon", {"principal_filter": "nobody"}),
        ("a type that is none", {"resource_type_filter": 99}),
        ("an operation that is none", {"operation": 99}),
        ("a pattern that is none", {"pattern_type_filter": 9}),
    ]
    any_one: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": somebody,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    any_one["pattern_type_filter"] = 1 if speaker.has(describe, 1) else 3
    for version in speaker.versions(describe, 1 if speaker.has(describe, 1) else 0):
        for label, changes in filters:
            if version or "pattern_type_filter" not in changes:
                say(speaker, label, describe(**(any_one | changes)), version)
    strange = ("a type that is none", "an operation that is none", "a pattern that is none", "no colon")
    for version in speaker.versions(delete, 1 if speaker.has(delete, 1) else 0):
        for label, changes in filters:
            if label in (*strange, "nobody", "denied") and (version or "pattern_type_filter" not in changes):
                say(speaker, label, delete(filters=[delete.Filter(**(any_one | changes))]), version)
    say(speaker, "no filter", delete(filters=[]))
    # Earlier brokers list an ACL that two filters match under one of them.
    first = {"resource_type_filter": 2} if speaker.numbers >= (4,) else {"principal_filter": "User:acl-nobody"}
    say(speaker, "two filters", delete(filters=[delete.Filter(**(any_one | one)) for one in (first, {})]))
    speaker.wait(0.5)
    say(speaker, "none left", describe(**any_one))
    no_acls = create(creations=[])
    say(speaker, "nothing", no_acls)


ACLS = (acls,)
ADMINISTRATION = (configs_of_topics, deletion_of_records, quotas, credentials, moves_of_partitions, the_cluster)
