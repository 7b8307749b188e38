"""Errors of wrong calls, caught by name as programs do, and what they print of it."""

import sys

from pykafka import KafkaClient, exceptions
from pykafka.common import OffsetType
from pykafka.exceptions import ConsumerStoppedException, KafkaException, ProducerStoppedException
from pykafka.partitioners import hashing_partitioner

hosts, zookeeper, name, group = sys.argv[1:5]


def attempt(what, call, *arguments, **options):
    try:
        result = call(*arguments, **options)
    except exceptions.UnicodeException:
        print(what, "UnicodeException")
    except (ProducerStoppedException, ConsumerStoppedException):
        print(what, "stopped")
    except exceptions.NoBrokersAvailableError:
        print(what, "NoBrokersAvailableError")
    except (exceptions.InvalidTopic, exceptions.UnknownTopicOrPartition) as error:
        print(what, "protocol error", error.ERROR_CODE)
    except KeyError:
        print(what, "KeyError")
    except (TypeError, ValueError) as error:
        print(what, type(error).__name__)
    except KafkaException:
        print(what, "KafkaException")
    except Exception:
        print(what, "Exception")
    else:
        print(what, "returned", type(result).__name__)


client = KafkaClient(hosts=hosts)
topic = client.topics[name]
producer = topic.get_sync_producer()
attempt("text", producer.produce, "a text")
attempt("number", producer.produce, 5)
attempt("text as key", producer.produce, b"x", partition_key="key")
attempt("number as key", producer.produce, b"x", 1)
attempt("null", producer.produce, None)
attempt("null with key", producer.produce, None, partition_key=b"tombstone")
attempt("empty", producer.produce, b"")
attempt("empty key", producer.produce, b"x", b"")
attempt("headers", producer.produce, b"x", b"k", None)
producer.stop()
producer.stop()
attempt("stopped", producer.produce, b"x")
try:
    producer.produce(b"x")
except ProducerStoppedException:
    print("by its name")
producer.start()
attempt("started again", producer.produce, b"again")
producer.stop()
with topic.get_sync_producer(partitioner=hashing_partitioner) as hashed:
    attempt("no key to hash", hashed.produce, b"x")
consumer = topic.get_simple_consumer(consumer_timeout_ms=300, auto_start=False)
attempt("not started", consumer.consume)
consumer.start()
attempt("started", consumer.consume)
attempt("no group to commit", consumer.commit_offsets)
attempt("no group to fetch", consumer.fetch_offsets)
attempt("offset of no partition", consumer.reset_offsets, [(7, 1)])
consumer.stop()
consumer.stop()
attempt("stopped consumer", consumer.consume)
try:
    for message in consumer:
        print("a message after stop()")
except ConsumerStoppedException as error:
    print("stopped:", type(error).__name__)
attempt("bad linger", topic.get_producer, linger_ms=-1)
attempt("bad retries", topic.get_producer, max_retries="3")
attempt("bad option", topic.get_producer, lingers=1)
attempt("bad timeout", topic.get_simple_consumer, fetch_wait_max_ms="a")
attempt("bad consumer option", topic.get_simple_consumer, offset=1)
attempt("no group", topic.get_balanced_consumer, zookeeper_connect=zookeeper)
attempt("group not ASCII", topic.get_simple_consumer, "gr\xfcn", auto_start=False)
attempt("topic not ASCII", lambda: client.topics["gr\xfcn"])
attempt("no topic name", lambda: client.topics["no such topic!"])
attempt("internal topic", lambda: client.topics["__consumer_offsets"])
attempt("no broker", KafkaClient, hosts="127.0.0.1:9", socket_timeout_ms=500)
attempt("bad hosts", KafkaClient, hosts="127.0.0.1", socket_timeout_ms=500)
print(issubclass(exceptions.NoBrokersAvailableError, KafkaException), OffsetType.EARLIEST, OffsetType.LATEST)
try:
    raise exceptions.PartitionOwnedError(topic.partitions[0])
except exceptions.PartitionOwnedError as error:
    print(error.partition.id)
half = topic.get_simple_consumer(group, partitions=[topic.partitions[0]], consumer_timeout_ms=300)
attempt("partition of others", half.reset_offsets, [(topic.partitions[1], 1)])
attempt("commit for others", half.commit_offsets, [(topic.partitions[1], 1)])
attempt("offset as text", half.reset_offsets, [(topic.partitions[0], "1")])
attempt("offset as float", half.reset_offsets, [(topic.partitions[0], 1.0)])
half.stop()
