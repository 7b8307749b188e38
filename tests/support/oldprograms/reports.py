"""Delivery reports, drained by loops that end at Empty, from threads of their own, and reports that are off."""

import queue
import sys
import threading

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, MessageSizeTooLarge

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts, broker_version="1.0.0")
topic = client.topics[name]


def drain(producer, wanted):
    delivered = {}
    while len(delivered) < wanted:
        try:
            msg, exc = producer.get_delivery_report(block=True, timeout=10)
        except queue.Empty:
            print("empty too early")
            break
        if exc is not None:
            print("Failed to deliver msg {}: {}".format(msg.partition_key, type(exc).__name__))
        delivered[msg.partition_key] = (msg.value, msg.partition_id, msg.offset, msg.partition)
    try:
        producer.get_delivery_report(block=False)
    except queue.Empty as error:
        print("Empty", repr(error))
    return delivered


with topic.get_producer(delivery_reports=True, min_queued_messages=1, linger_ms=10) as producer:
    for count in range(20):
        producer.produce(b"test msg", partition_key="{}".format(count).encode())
    print(sorted(drain(producer, 20).items()))

    def work(number):
        for count in range(5):
            producer.produce(b"of thread", partition_key=b"%d-%d" % (number, count))
        kept[number] = sorted(drain(producer, 5))

    kept = {}
    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    print(kept)
    producer._wait_all()

with topic.get_producer(delivery_reports=True, min_queued_messages=1, max_queued_messages=1) as producer:
    for count in range(3):
        producer.produce(b"one at a time")
        msg, exc = producer.get_delivery_report(block=True)
        print(msg.value, exc, msg.partition_key, msg.produce_attempt)

with topic.get_producer(linger_ms=10) as producer:
    producer.produce(b"unreported")
    try:
        producer.get_delivery_report(block=False)
    except KafkaException as error:
        print(type(error).__name__)

with topic.get_sync_producer(max_request_size=10000000) as producer:
    producer.produce(b"reported already")
    try:
        producer.get_delivery_report(block=False)
    except queue.Empty:
        print("no report of a synchronous producer")
    try:
        producer.produce(b"x" * 3000000)
    except MessageSizeTooLarge as error:
        print(type(error).__name__, error.ERROR_CODE)
