"""Ctrl-C, SIGTERM and alarms, which reach programs that wait for messages; and how a program ends that stops nothing."""

import os
import signal
import sys
import threading
import time

from pykafka import KafkaClient

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts)
topic = client.topics[name]


class Late(Exception):
    pass


def soon(number, seconds=1.0):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[0]) as producer:
    producer.produce(b"first")
consumer = topic.get_simple_consumer(group, auto_commit_enable=True)
soon(signal.SIGINT, 1.5)
try:
    for message in consumer:
        print(message.value)
except KeyboardInterrupt:
    print("interrupted", consumer.held_offsets)
    consumer.stop()
stopping = []
signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
patient = topic.get_simple_consumer(consumer_timeout_ms=300)
soon(signal.SIGTERM)
while not stopping:
    message = patient.consume()
    if message is not None:
        print(message.value)
print(stopping == [signal.SIGTERM])
patient.stop()


def too_late(number, frame):
    raise Late()


signal.signal(signal.SIGALRM, too_late)
waiting = topic.get_balanced_consumer(group + "-m", managed=True, reset_offset_on_start=True, auto_offset_reset=-1)
signal.setitimer(signal.ITIMER_REAL, 1)
try:
    waiting.consume()
except Late:
    print("late")
waiting.stop()
producer = topic.get_producer(linger_ms=10, partitioner=lambda partitions, key: partitions[1])
signal.alarm(5)
producer.produce(b"second")
signal.alarm(0)
time.sleep(0.5)
left = topic.get_simple_consumer(group + "-z")
print(left.consume() is not None)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))
soon(signal.SIGTERM)
while True:
    left.consume(block=True)
