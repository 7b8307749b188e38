"""Members of one group, of this package and of other clients, which come and go while records are written for them."""

from __future__ import annotations

import contextlib
from typing import Any

from pykafka import KafkaClient
from tests.support.waiting import until


class Ours:
    """A member of this package, with the face of those of other clients (`tests.support.foreign`).

    :param options: of its consumer
    """

    def __init__(self, client: KafkaClient, group: str, topic: str, **options: Any) -> None:
        self.values: list[bytes | None] = []
        self._stopping = False
        self._consumer: Any = client.consumer(topic, group=group, **options)
        self._worker = client.cluster.handler.spawn(self._read)

    @property
    def share(self) -> set[int]:
        return {key.partition for key in self._consumer.assignment()}

    def _read(self) -> None:
        with self._consumer:
            while not self._stopping:
                self.values += [record.value for record in self._consumer.poll(500, 0.05)]

    def stop(self) -> None:
        self._stopping = True
        assert self._worker.join(30)
        if self._worker.error is not None:
            raise self._worker.error


class Readers:
    """The members of one group, and what was written for them.

    :param topic: that they read
    :param partitions: of the topic
    :param stack: stops them
    """

    def __init__(self, client: KafkaClient, topic: str, partitions: int, stack: contextlib.ExitStack) -> None:
        self.client = client
        self.topic = topic
        self.partitions = partitions
        self.stack = stack
        self.members: list[Any] = []
        self.left: list[Any] = []
        self.written = 0

    def join(self, member: Any) -> None:
        self.stack.callback(member.stop)
        self.members.append(member)
        self.check()

    def leave(self) -> None:
        """Stop the member that came first: in the classic protocol it leads."""
        self.left.append(self.members.pop(0))
        self.left[-1].stop()
        self.check()

    def divided(self) -> bool:
        shares = [member.share for member in self.members]
        whole = sorted(index for share in shares for index in share) == list(range(self.partitions))
        return whole and max(map(len, shares)) - min(map(len, shares)) <= 1

    def read(self) -> set[bytes | None]:
        return {value for member in (*self.members, *self.left) for value in member.values}

    def check(self) -> None:
        """Wait until the members divide the partitions, and have read all that was written then."""
        handler, first = self.client.cluster.handler, self.written
        until(handler, self.divided, 60)
        self.written += 10 * self.partitions
        with self.client.producer() as producer:
            for number in range(first, self.written):
                producer.produce(self.topic, b"%d" % number, partition=number % self.partitions)
        until(handler, lambda: self.read() == {b"%d" % number for number in range(self.written)}, 60)
