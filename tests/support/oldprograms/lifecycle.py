"""Consumers in threads that end by stop(), generators, events, weak references, clients by ZooKeeper, forks."""

import asyncio
import gc
import multiprocessing
import sys
import threading
import time

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException, LeaderNotAvailable, SocketDisconnectedError

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(zookeeper_hosts=zookeeper)
topic = client.topics[name]


class Worker(threading.Thread):
    def __init__(self):
        super().__init__()
        self.consumer = topic.get_simple_consumer()
        self.taken = []

    def run(self):
        try:
            for message in self.consumer:
                self.taken.append(message.value)
        except ConsumerStoppedException:
            self.taken.append("stopped")


def feed():
    with topic.get_producer(linger_ms=0, min_queued_messages=1) as producer:
        while True:
            data = yield
            if data is None:
                return
            producer.produce(str(data).encode())


worker = Worker()
worker.start()
feeding = feed()
next(feeding)
for number in range(5):
    feeding.send(number)
try:
    feeding.send(None)
except StopIteration:
    print("fed")
while len(worker.taken) < 5:
    time.sleep(0.05)
worker.consumer.stop()
worker.join(10)
print(sorted(worker.taken, key=str), worker.is_alive())

event = threading.Event()
consumer = topic.get_simple_consumer(consumer_timeout_ms=200, reset_offset_on_start=True, auto_offset_reset=-1)
event.set()
print(consumer.consume(unblock_event=event))
blocked = topic.get_simple_consumer(reset_offset_on_start=True, auto_offset_reset=-1)
print(blocked.consume(unblock_event=event), blocked.consume(block=False))
blocked.stop()
consumer.stop()


async def poll():
    consumer = topic.get_simple_consumer()
    taken = []
    while len(taken) < 5:
        message = consumer.consume(block=False)
        if message is None:
            await asyncio.sleep(0.01)
        else:
            taken.append(message.value)
    consumer.stop()
    return sorted(taken)


print(asyncio.run(poll()))
producer = topic.get_producer(linger_ms=10)
try:
    producer.produce(b"guarded")
except (SocketDisconnectedError, LeaderNotAvailable):
    producer.stop()
    producer.start()
producer.stop()


def child(hosts, name):
    client = KafkaClient(hosts)
    with client.topics[name].get_sync_producer() as producer:
        producer.produce(b"of a child")


process = multiprocessing.Process(target=child, args=(hosts, name))
process.start()
process.join(30)
print(process.exitcode)
for _ in range(3):
    another = KafkaClient(hosts)
    consumer = another.topics[name].get_simple_consumer(consumer_timeout_ms=500)
    print(consumer.consume() is not None, end=" ")
    del consumer, another
gc.collect()
print()
unstopped = topic.get_producer(linger_ms=50)
unstopped.produce(b"of a producer that is not stopped")
time.sleep(1)
left = topic.get_simple_consumer(group, auto_commit_enable=True)
print(left.consume() is not None)
