"""Replay the flights and the weather as JSON events: one greenlet per carrier and per weather station, nothing patched."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator

import gevent
from gevent.pool import Group
from gevent.queue import Queue

from examples.flights import data
from examples.flights.data import Event
from examples.flights.job import Job
from examples.flights.progress import Progress
from examples.flights.topics import offsets
from pykafka import KafkaClient, KafkaException, KafkaProducer

#: The most events that wait for one greenlet.
LANE_SIZE = 500
#: A loop over a file never waits, so it yields to the other greenlets after so many events.
TURN_EVERY = 100
WEATHER_HOURS = 26_115

encode = json.JSONEncoder(separators=(",", ":")).encode


class MessagesDroppedError(RuntimeError):
    """Raised when the broker has dropped messages; the text names the partition and the remedy."""


def main() -> int:
    """Produce both topics, then make sure that the broker kept every message."""
    job = Job.from_command_line(__doc__)
    # Raised in a greenlet of its own, so that the exit never ends one of the client's workers in its middle.
    gevent.signal_handler(signal.SIGTERM, sys.exit, 128 + signal.SIGTERM)
    try:
        with job.client(use_greenlets=True) as client:
            counts = produce_all(client, job)
            for name, count in counts.items():
                check_kept(client, name, count)
    except (KafkaException, MessagesDroppedError) as error:
        print(f"produce: {error}", file=sys.stderr)
        return 1
    return 0


def produce_all(client: KafkaClient, job: Job) -> dict[str, int]:
    """Produce flights and weather at the same time; return the numbers of messages by topic."""
    totals = {job.flights: data.count_flights(job.limit), job.weather: WEATHER_HOURS}
    # Messages have the present time: a broker would soon delete messages of 2013 as too old.
    with Progress(totals) as progress, client.producer(compression="zstd", linger_ms=1000) as producer:
        readers = [
            gevent.spawn(replay, producer, job.flights, data.flights(job.limit), "carrier", flight_key, progress),
            gevent.spawn(replay, producer, job.weather, data.weather(), "origin", weather_key, progress),
        ]
        try:
            gevent.joinall(readers, raise_error=True)
        finally:
            gevent.killall(readers)
    return {job.flights: readers[0].value, job.weather: readers[1].value}


def flight_key(event: Event) -> bytes:
    """Return carrier and flight number: all flights of a number go to one partition, in order."""
    return f"{event['carrier']}{event['flight']}".encode()


def weather_key(event: Event) -> bytes:
    """Return airport and hour."""
    return f"{event['origin']} {event['time_hour']}".encode()


def replay(
    producer: KafkaProducer[bytes, bytes],
    topic: str,
    events: Iterator[Event],
    lane: str,
    key_of: Callable[[Event], bytes],
    progress: Progress,
) -> int:
    """Produce events to a topic, the events of each lane by a greenlet of their own; return their number.

    :param lane: the field whose value assigns an event to a greenlet
    """

    def produce(queue: Queue) -> None:
        for event in queue:
            producer.produce(topic, encode(event).encode(), key=key_of(event))
            progress.advance(topic)

    return divide(events, lane, produce)


def divide(events: Iterator[Event], lane: str, produce: Callable[[Queue], None]) -> int:
    """Pass each event to the greenlet of its lane, and wait until all of them end."""
    lanes: dict[object, Queue] = {}
    group, reader, count = Group(), gevent.getcurrent(), 0

    def fail(greenlet: gevent.Greenlet) -> None:
        # That lane's greenlet has ended: the reader must not wait for room in its queue.
        gevent.kill(reader, greenlet.exception)

    try:
        for event in events:
            name = event[lane]
            if name not in lanes:
                lanes[name] = Queue(LANE_SIZE)
                group.spawn(produce, lanes[name]).link_exception(fail)
            lanes[name].put(event)
            count += 1
            if count % TURN_EVERY == 0:
                gevent.sleep(0)
        for queue in lanes.values():
            queue.put(StopIteration)
        group.join(raise_error=True)
    finally:
        group.kill()
    return count


def check_kept(client: KafkaClient, topic: str, produced: int) -> None:
    """Check that a topic has all produced messages, from its first one on.

    :raises MessagesDroppedError: the topic lacks messages
    """
    earliest, latest = offsets(client, topic)
    dropped = {partition: offset for partition, offset in earliest.items() if offset}
    if dropped:
        raise MessagesDroppedError(
            f"the broker has dropped the oldest {sum(dropped.values()):,} messages of topic {topic}, in partitions"
            f" {sorted(dropped)}: it keeps too little of each; give the topic more partitions, or more space"
        )
    kept = sum(latest.values())
    if kept != produced:
        raise MessagesDroppedError(
            f"topic {topic} holds {kept:,} messages, but {produced:,} were produced: "
            "run again, on topics without other producers"
        )


if __name__ == "__main__":
    raise SystemExit(main())
