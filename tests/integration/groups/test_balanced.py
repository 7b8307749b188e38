"""Groups balanced through ZooKeeper: the brokers' own, or one beside brokers that have none."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress
from typing import Any

import gevent
import pytest
from kazoo.client import KazooClient

from pykafka import BalancedConsumer, KafkaClient
from pykafka.common import OffsetType
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import (
    ConsumerStoppedException,
    DeserializationError,
    KafkaException,
    OffsetsNotCommitted,
    PartitionOwnedError,
    ZooKeeperError,
)
from pykafka.groups.zookeeper.group import ZooKeeperGroup
from pykafka.protocol import wire
from tests.support.groups import Balanced, Place, balanced
from tests.support.inside import engine_of
from tests.support.waiting import CutOff, cut_off, until

pytestmark = [pytest.mark.kafka, pytest.mark.no_loop("consume in groups of ZooKeeper")]


@pytest.fixture
def group(client: KafkaClient, place: Place) -> Balanced:
    return balanced(client, place)


def test_members_share_and_hand_over_where_they_were(group: Balanced) -> None:
    first = group.produce(300)
    one = group.join()
    group.sizes(3)
    found = group.drain(100)
    two = group.join()
    group.sizes(1, 2)
    assert set(one.partitions).isdisjoint(two.partitions)
    found += group.drain(200)
    assert found == first
    two.stop()
    assert two.partitions == {}
    group.members.remove(two)
    group.sizes(3)
    second = group.produce(90, start=1000)
    assert group.drain(90) == second
    assert sum(one.held_offsets.values()) == 390 - 3
    one.stop()
    # what was committed is the group's, also for those who come later
    third = group.produce(30, start=2000)
    group.members = []
    group.join()
    assert group.drain(30) == third


def test_a_share_is_taken_in_batches_and_as_columns(group: Balanced) -> None:
    wanted = group.produce(300)
    one = group.join()
    found = [message.value for message in one.consume_batch(100)]
    while len(found) < 300:
        batch = one.consume_arrow(70, ["value"])
        assert batch is not None
        found += batch["value"].to_pylist()
    assert set(found) == set(wanted)
    assert len(found) == 300
    assert sum(one.held_offsets.values()) == 300 - 3
    assert one.consume_batch(block=False) == []


def test_members_without_a_partition_idle(client: KafkaClient, place: Place) -> None:
    group = balanced(client, place, partitions=2)
    group.join()
    group.join()
    group.sizes(1, 1)
    idle = group.join(consumer_timeout_ms=1000)
    group.sizes(0, 1, 1)
    extra = next(member for member in group.members if not member.partitions)
    started, used = time.monotonic(), time.process_time()
    if extra is idle:
        assert idle.consume() is None
        assert 0.9 < time.monotonic() - started < 5
        assert time.process_time() - used < 0.5
        assert idle.held_offsets == {}
        idle.commit_offsets()
    leaver = next(member for member in group.members if member.partitions)
    before = [(member, set(member.partitions), member._consumer) for member in group.members if member is not leaver]
    leaver.stop()
    group.members.remove(leaver)
    group.sizes(1, 1)
    # whoever kept its share kept its internal consumer; which of them that is depends on the order of their ids
    assert all(member._consumer is kept for member, share, kept in before if share and share == set(member.partitions))


def test_an_unchanged_share_keeps_the_internal_consumer(group: Balanced) -> None:
    one = group.join()
    group.sizes(3)
    kept = one._consumer
    one._rebalance()
    one._rebalance()
    assert one._consumer is kept


def test_a_member_that_dies_is_replaced(group: Balanced) -> None:
    values = group.produce(60)
    one, two = group.join(), group.join()
    group.sizes(1, 2)
    assert group.drain(60) == values
    two.commit_offsets()
    two._zookeeper.stop()  # as when its process ends: the session goes, and its nodes with it
    group.until(lambda: len(one.partitions) == 3)
    group.until(lambda: not two.partitions)
    two.stop()
    group.members.remove(two)
    more = group.produce(30, start=100)
    assert group.drain(30) == more


def test_a_member_whose_session_ends_says_so_and_joins_anew(
    group: Balanced, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = group.join(), group.join()
    group.sizes(1, 2)
    before = two._consumer
    other = KazooClient(place.zookeeper, client_id=two._zookeeper.client_id)
    other.start()
    other.stop()  # which ends the session for both
    other.close()
    group.until(lambda: two._consumer is not before)
    group.sizes(1, 2)
    assert "the ZooKeeper session ended" in caplog.text
    values = group.produce(30)
    assert group.drain(30) == values
    assert one._worker_exceptions == two._worker_exceptions == type(one._worker_exceptions)()


def test_nodes_are_where_old_consumers_look(group: Balanced, kazoo: Any) -> None:
    one = group.join()
    ids = f"/consumers/{group.name}/ids"
    assert kazoo.get_children(ids) == [one._consumer_id]
    assert one._path_self == f"{ids}/{one._consumer_id}"
    assert "b'" not in one._consumer_id
    data, stat = kazoo.get(one._path_self)
    assert (data, bool(stat.ephemeralOwner)) == (group.topic.name.encode(), True)
    owners = f"/consumers/{group.name}/owners/{group.topic.name}"
    assert sorted(kazoo.get_children(owners)) == ["1-0", "1-1", "1-2"]
    # PyKafka 2.x on Python 3 takes the topic's name for its bytes, and looks there
    odd = f"/consumers/{group.name}/owners/b'{group.topic.name}'"
    assert sorted(kazoo.get_children(odd)) == ["1-0", "1-1", "1-2"]
    assert one._path_from_partition(group.topic.partitions[2]) == f"{owners}/1-2"
    assert kazoo.get(f"{owners}/1-2")[0] == one._consumer_id.encode()
    assert one._get_held_partitions() == one._partitions == set(group.topic.partitions.values())
    assert one._get_participants() == [one._consumer_id]
    one.stop()
    assert kazoo.get_children(ids) == kazoo.get_children(owners) == kazoo.get_children(odd) == []


def test_documented_internals_work_when_called(group: Balanced) -> None:
    one = group.join()
    group.sizes(3)
    kept = one._consumer
    one._update_member_assignment()
    assert one._consumer is kept
    assert repr(one).startswith("<pykafka.balancedconsumer.BalancedConsumer at ")
    called: list[BalancedConsumer] = []
    watch = one._build_watch_callback(called.append, lambda: one)
    assert watch("an event of kazoo's")
    one.stop()
    assert not watch("an event of kazoo's")
    assert called == [one]
    # without the worker, which would do the same meanwhile
    one._setup_zookeeper(group.settings["zookeeper_hosts"], 6000)
    one._set_watches()
    assert one._get_participants() == []
    one._add_self()
    assert one._get_participants() == [one._consumer_id]
    partitions = set(group.topic.partitions.values())
    assert one._decide_partitions([one._consumer_id]) == partitions
    assert 0 < len(one._decide_partitions([one._consumer_id, "zzz"])) < 3
    one._add_partitions(partitions)
    assert one._get_held_partitions() == partitions
    one._remove_partitions([group.topic.partitions[0]])
    assert one._get_held_partitions() == partitions - {group.topic.partitions[0]}
    one.stop()


def test_one_that_is_dropped_leaves(group: Balanced, kazoo: Any) -> None:
    """Nobody has stopped it: it stayed a member, with partitions that nobody read."""
    group.join()
    group.sizes(3)
    ids, owners = f"/consumers/{group.name}/ids", f"/consumers/{group.name}/owners/{group.topic.name}"
    assert len(kazoo.get_children(ids)) == 1
    one = group.members.pop()
    gone = weakref.ref(one)
    del one
    group.until(lambda: gc.collect() is not None and gone() is None)
    group.until(lambda: kazoo.get_children(ids) == kazoo.get_children(owners) == [])


def test_a_partition_that_another_keeps_is_told_after_all_retries(group: Balanced, kazoo: Any) -> None:
    path = f"/consumers/{group.name}/owners/{group.topic.name}/7-1"  # of another leader: the partition counts
    kazoo.create(path, b"somebody", ephemeral=True, makepath=True)
    with pytest.raises(PartitionOwnedError, match="somebody") as caught:
        group.join(rebalance_max_retries=2, rebalance_backoff_ms=100)
    assert caught.value.partition == group.topic.partitions[1]
    assert kazoo.get_children(f"/consumers/{group.name}/ids") == []
    one = group.join(auto_start=False, rebalance_max_retries=50)
    kazoo.delete(path)
    one.start()
    group.sizes(3)


def test_what_keeps_a_member_from_its_share_is_raised_once_and_tried_again(group: Balanced, kazoo: Any) -> None:
    one = group.join(rebalance_max_retries=1, rebalance_backoff_ms=100)
    group.sizes(3)
    path = one._path_from_partition(group.topic.partitions[1])
    kazoo.delete(path)
    kazoo.create(path, b"somebody", ephemeral=True)
    one._wanted.set()
    with pytest.raises(PartitionOwnedError):
        group.until(lambda: one.consume(block=False) and False)
    assert sorted(one.partitions) == [0, 2]
    kazoo.delete(path)
    group.sizes(3)
    # told once more at most: it was tried again before the partition was free
    one._worker_exceptions.clear()
    assert one._consumer is not None
    engine_of(one._consumer).errors.clear()
    values = group.produce(30)
    assert group.drain(30) == values


def test_a_consume_that_waits_holds_no_rebalance_up(group: Balanced) -> None:
    one = group.join(consumer_timeout_ms=-1)
    handler = group.client.cluster.handler
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            one.consume()
        except ConsumerStoppedException as error:
            ended.append(error)

    worker = handler.spawn(wait)
    handler.sleep(0.2)
    started = time.monotonic()
    group.join()
    group.sizes(1, 2)
    assert time.monotonic() - started < 8
    one.stop()
    assert worker.join(5)
    assert len(ended) == 1


def overtaken(group: Balanced) -> tuple[BalancedConsumer, GroupOffsets]:
    """Consume nine messages with a member, commit higher offsets for its group from elsewhere, and return both."""
    group.produce(60)
    one = group.join(auto_commit_enable=True)
    group.sizes(3)
    assert group.drain(9).total() == 9
    others = GroupOffsets(group.client.cluster, group.name, 100, 3)
    others.commit(dict.fromkeys(group.all_partitions(), 20))
    return one, others


def test_positions_are_not_committed_when_the_session_is_over(group: Balanced, place: Place) -> None:
    """Others may have gone on: they were put back to where this one had been, 200 to 20, and 180 came again."""
    one, others = overtaken(group)
    before = one._consumer
    other = KazooClient(place.zookeeper, client_id=one._zookeeper.client_id)
    other.start()
    other.stop()  # which ends the session for both
    other.close()
    group.until(lambda: one._consumer is not before and len(one.partitions) == 3)
    assert {committed.offset for committed in others.fetch(group.all_partitions()).values()} == {20}
    assert set(one.held_offsets.values()) == {19}
    more = group.produce(30, start=100)
    assert group.drain(30) == more
    one.stop()
    assert {committed.offset for committed in others.fetch(group.all_partitions()).values()} == {30}


def test_positions_are_not_committed_when_the_session_may_be_over(
    group: Balanced, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper was away for so long that others may have the partitions; letting them go committed over theirs."""
    one, others = overtaken(group)
    session, before = one._nodes.session, one._consumer
    assert before is not None
    session.suspended_since = group.client.cluster.handler.now() - session.timeout_s
    before._auto_commit()
    with pytest.raises(OffsetsNotCommitted, match="the session in ZooKeeper has ended, or may have"):
        before.commit_offsets()
    one._wanted.set()
    group.until(lambda: not engine_of(before).running)
    assert {committed.offset for committed in others.fetch(group.all_partitions()).values()} == {20}
    assert "{0: 3, 1: 3, 2: 3} is not committed" in caplog.text
    session._session_changed("CONNECTED")
    group.sizes(3)
    more = group.produce(30, start=100)
    while not more <= (found := group.drain(1)):
        more -= found
    one.stop()
    assert {committed.offset for committed in others.fetch(group.all_partitions()).values()} == {30}


def test_a_partition_that_was_half_released_becomes_free(group: Balanced, kazoo: Any) -> None:
    """Each owner stands in two places; an answer that does not come may leave one of them."""
    one = group.join()
    group.sizes(3)
    for name in kazoo.get_children(one._topic_path):
        kazoo.delete(f"{one._topic_path}/{name}")
    group.join(rebalance_max_retries=20)
    group.sizes(1, 2)
    group.members[1].stop()
    one.stop()


def test_positions_stay_the_applications_without_auto_commit(group: Balanced) -> None:
    group.produce(30)
    one = group.join(auto_commit_enable=False)
    group.sizes(3)
    group.drain(30)
    held = one.held_offsets
    two = group.join(auto_commit_enable=False)
    group.sizes(1, 2)
    assert one.held_offsets == {id_: held[id_] for id_ in one.partitions}
    # nobody said that those were done with: they come again
    again = sum(held[id_] + 1 for id_ in two.partitions)
    assert group.drain(again).total() == again
    one.commit_offsets([(partition, held[id_] + 1) for id_, partition in one.partitions.items()])
    with pytest.raises(KafkaException, match="does not read that partition"):
        one.commit_offsets([(partition, 0) for partition in two.partitions.values()])


def test_a_connection_that_was_given_stays_open_and_an_own_one_does_not(group: Balanced, place: Place) -> None:
    given = KazooClient(place.zookeeper, handler=group.client.cluster.handler.kazoo())
    with pytest.raises(ZooKeeperError, match=r"start\(\)"):
        group.join(zookeeper=given)
    given.start()
    try:
        one = group.join(zookeeper=given)
        assert one._zookeeper is given
        one.stop()
        assert given.connected
        assert given.get_children(f"/consumers/{group.name}/ids") == []
        assert not given.state_listeners
    finally:
        given.stop()
        given.close()
    two = group.join()
    own = two._zookeeper
    assert own.connected
    halted: list[bool] = []
    own.add_listener(lambda state: halted.append(two._consumer is None))
    two.stop()
    assert not own.connected
    assert halted == [True]


def test_a_stop_that_is_cut_off_lets_go_all_the_same(
    group: Balanced, place: Place, kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a connection that was given, partitions stayed nobody's for as long as that lasted."""
    leave = ZooKeeperGroup.leave

    handler = group.client.cluster.handler

    def slowly(self: ZooKeeperGroup) -> None:
        handler.sleep(0.5)
        leave(self)

    given = KazooClient(place.zookeeper, handler=handler.kazoo())
    given.start()
    try:
        one = group.join(zookeeper=given)
        monkeypatch.setattr(ZooKeeperGroup, "leave", slowly)
        with pytest.raises(CutOff), cut_off(handler, 0.3):
            one.stop()
        one.start()  # which the former end must not undo
        assert len(one.partitions) == 3
        owners = f"/consumers/{group.name}/owners/{group.topic.name}"
        assert kazoo.get_children(f"/consumers/{group.name}/ids") == [one._consumer_id]
        assert len(kazoo.get_children(owners)) == 3
        with pytest.raises(CutOff), cut_off(handler, 0.3):
            one.stop()
        group.until(lambda: not kazoo.get_children(owners))
        group.until(lambda: not kazoo.get_children(f"/consumers/{group.name}/ids"))
    finally:
        given.stop()
        given.close()


@pytest.mark.later("greenlets")
def test_connecting_that_is_cut_off_leaves_no_connection(group: Balanced) -> None:
    """kazoo went on connecting for ever, and a greenlet's timeout came out as an error that ZooKeeper did not answer."""
    handler = group.client.cluster.handler
    silent = socket.create_server(("127.0.0.1", 0))
    open_now: set[socket.socket] = set()

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = silent.accept()
                open_now.add(peer)
                threading.Thread(target=watch, args=(peer,), daemon=True).start()

    def watch(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            while peer.recv(1000):
                continue
        open_now.discard(peer)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        with pytest.raises(CutOff), cut_off(handler, 0.5):
            group.join(zookeeper_hosts=f"127.0.0.1:{silent.getsockname()[1]}", zookeeper_connection_timeout_ms=2000)
        if handler.cooperative:
            with pytest.raises(gevent.Timeout), gevent.Timeout(0.5):
                group.join(zookeeper_hosts=f"127.0.0.1:{silent.getsockname()[1]}", zookeeper_connection_timeout_ms=2000)
        until(handler, lambda: not open_now)
        handler.sleep(0.5)  # kazoo would have tried again by now
        assert not open_now
    finally:
        silent.shutdown(socket.SHUT_RDWR)
        silent.close()
        server.join(10)


def add_partitions(group: Balanced, kazoo: Any) -> None:
    """Add three partitions to the topic, as Kafka's own scripts did it before brokers had a request for it."""
    broker = group.client.cluster.controller_broker
    if broker is not None and wire.CreatePartitionsRequest.api_key in broker.api_ranges():
        wanted = wire.CreatePartitionsRequest.Topic(name=group.topic.name, count=6, assignments=None)
        (answer,) = broker.call(wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000)).results
        assert not answer.error_code, answer
    else:
        assignment = {str(id_): [1] for id_ in range(6)}
        data = json.dumps({"version": 1, "partitions": assignment}).encode()
        kazoo.set(f"/brokers/topics/{group.topic.name}", data)


def test_partitions_that_are_added_are_shared(group: Balanced, kazoo: Any) -> None:
    group.join(metadata_max_age_ms=300)
    group.join(metadata_max_age_ms=300)
    group.sizes(1, 2)
    add_partitions(group, kazoo)
    group.until(lambda: len(group.topic.partitions) == 6)
    group.sizes(3, 3)


def test_reset_offset_on_start_is_for_the_first_share_alone(group: Balanced) -> None:
    values = group.produce(30)
    group.join()
    group.drain(30)
    group.members.pop().stop()
    one = group.join(reset_offset_on_start=True)
    assert group.drain(30) == values
    group.join()
    group.sizes(1, 2)
    assert one.consume(block=False) is None
    group.client.cluster.handler.sleep(0.3)
    assert one.consume(block=False) is None


def test_a_stopped_member_says_so_and_can_be_started_again(group: Balanced) -> None:
    values = group.produce(30)
    one = group.join(auto_start=False)
    with pytest.raises(ConsumerStoppedException):
        one.consume()
    with pytest.raises(ConsumerStoppedException, match="is not running"):
        one.commit_offsets()
    with one:
        assert group.drain(30) == values
    with pytest.raises(ConsumerStoppedException):
        one.consume(block=False)
    one.stop()
    more = group.produce(3, start=100)
    one.start()
    assert Counter(next(iter(one)).value for _ in more) == more
    one.reset_offsets([(partition, OffsetType.EARLIEST) for partition in one.partitions.values()])
    assert group.drain(33) == values + more


def test_what_a_deserializer_raises_comes_through(group: Balanced) -> None:
    group.produce(1)

    def broken(value: Any, key: Any) -> Any:
        raise AttributeError("of the deserializer")

    one = group.join(deserializer=broken)
    with pytest.raises(DeserializationError) as caught:
        one.consume()
    assert isinstance(caught.value.__cause__, AttributeError)
