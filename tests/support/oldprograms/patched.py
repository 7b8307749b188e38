"""Subclasses, wrapped methods, replaced loggers, internals that monitoring programs read."""

import logging
import sys

import pykafka
import pykafka.balancedconsumer
import pykafka.cluster
import pykafka.connection
import pykafka.handlers
import pykafka.producer
import pykafka.simpleconsumer
from pykafka.exceptions import KafkaException
from pykafka.topic import OffsetType

hosts, zookeeper, name, group = sys.argv[1:5]
records = []


class Keeping(logging.Handler):
    def emit(self, record):
        records.append(record.name)


logging.getLogger("pykafka").addHandler(Keeping())
logging.getLogger("pykafka").setLevel(logging.DEBUG)
own = logging.getLogger("kafka")
own.setLevel(logging.WARNING)
for module in (pykafka.simpleconsumer, pykafka.balancedconsumer, pykafka.producer, pykafka.cluster, pykafka.handlers,
               pykafka.connection):
    module.log = own
calls = []


def wrapped(kind, method):
    before = getattr(kind, method)

    def wrapper(self, *arguments, **options):
        calls.append((kind.__name__, method, self._topic._name.decode() == name))
        return before(self, *arguments, **options)

    setattr(kind, method, wrapper)


wrapped(pykafka.simpleconsumer.SimpleConsumer, "consume")
wrapped(pykafka.Producer, "produce")


class TestException(KafkaException):
    pass


class Client(pykafka.KafkaClient):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.opened = {}

    def producer_of(self, topic):
        return self.opened.setdefault(topic, self.topics[topic].get_producer(linger_ms=0, sync=True))


class Proxy:
    def __init__(self, client):
        self._client = client

    def __getattr__(self, attribute):
        return getattr(self._client, attribute)


class Consumer(pykafka.SimpleConsumer):
    def consume(self, block=True, unblock_event=None):
        message = super().consume(block=block, unblock_event=unblock_event)
        if message is not None:
            message.value = message.value.upper()
        return message


client = Client(hosts=hosts)
proxy = Proxy(client)
topic = proxy.topics[name]
producer = client.producer_of(name)
producer.produce(b"loud")
print(producer._running, producer._synchronous, producer._linger_ms, producer._max_retries, client._seed_hosts == hosts)
producer.stop()
print(producer._running)
consumer = Consumer(topic, client.cluster, consumer_group=group, consumer_timeout_ms=500, auto_offset_reset=-2)
print([message.value for message in consumer], consumer._running, consumer._consumer_group, consumer._auto_commit_enable)
print(consumer._consumer_timeout_ms, consumer._auto_offset_reset == OffsetType.EARLIEST, consumer._topic is topic)
consumer.commit_offsets()
consumer.stop()
print(consumer._running, sorted(set(calls)), calls.count(("Producer", "produce", True)))
print(any(record.startswith("pykafka") for record in records))
try:
    raise TestException("Test")
except KafkaException as error:
    print("caught", repr(error))
print(client._handler is client.cluster.handler, client.cluster._seed_hosts == hosts, pykafka.common.OffsetType.LATEST)
