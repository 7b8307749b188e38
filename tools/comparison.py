"""Write docs/comparison.md: the ten programs of examples/first_week, with the lines that they take with each client.

What stands behind the line BY_HAND stays: it is written by hand.

python tools/comparison.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "comparison.md"
PROGRAMS = ROOT / "examples" / "first_week"
#: The clients of the table, and the variants of our programs.
CLIENTS = {
    "pykafka": "PyKafka 3",
    "confluent": "confluent-kafka",
    "kafka_python": "kafka-python",
    "aiokafka": "aiokafka",
}
VARIANTS = {
    "pykafka": "",
    "pykafka_threads": "On threads",
    "pykafka_asyncio": "On asyncio, with FastAPI",
    "pykafka_fastapi": "On asyncio, with FastAPI",
}
#: The programs in order: what differs with the other clients.
NOTES = {
    "json_headers": (
        "A consumer needs no group here: what reads once has nothing to commit. confluent-kafka has no consumer without a "
        "group, and its errors come as messages that each program has to look at."
    ),
    "callbacks": (
        "Callbacks run on a worker of their own, in the order of each partition. With confluent-kafka they run only inside of "
        "`poll()` and `flush()`, and a full queue raises; here `produce()` waits for room, at most `max_block_ms`."
    ),
    "group_beside_http": (
        "The first program runs on gevent, without monkey patching. The other clients' calls hold up the hub there, but for a "
        "monkey-patched process (kafka-python); so theirs run on threads, and aiokafka's on asyncio."
    ),
    "pattern_pause": "The names are those of the Java client. A listener has only the methods that it needs.",
    "seek_to_time": (
        "`seek_to_time()` asks for the offsets and goes there; partitions without a message as late as that are read from "
        "their end. With the others this is three steps, and the last one is easily forgotten."
    ),
    "parallel_dead_letters": (
        "Each key proceeds by itself, and offsets are committed up to the first message that is not done. With the others the "
        "program is given, in its simple form, a batch at a time: the slowest message holds up all others, and a message "
        "that takes longer than `max.poll.interval.ms` costs the group a rebalance."
    ),
    "registry_avro": (
        "The others use the serializers of confluent-kafka, which PyKafka takes as they are, too; for Avro it has its own, "
        "which write the same bytes. On greenlets and asyncio it runs requests to the registry outside of the loop."
    ),
    "admin": "Each call returns values or raises; nothing is a future or a list of tuples.",
    "web": (
        "A request waits for its own message. With confluent-kafka `flush()` waits for the messages of all other requests; "
        "otherwise a thread has to call `poll()`."
    ),
    "celery_tasks": (
        "Celery forks its workers. A client and a producer that were made before work in each of them; with the others they "
        "must be made after the fork. aiokafka is left out: a task is no coroutine."
    ),
}
BY_HAND = "<!-- by hand from here on -->\n"
HEAD = """\
# Beside other clients: the programs of the first week

Ten programs that most teams write in their first week with Kafka, with this client and three others. Each does the same with
every client; tests run them all against a real Kafka. The table has the number of their lines, without blank ones and comments.
They are the shortest forms. The programs to copy are [a service on gevent](gevent-service.md), [a service on
asyncio](asyncio-service.md) and [a job of Spark](spark-job.md).

[What other clients have, and from where we know it](#where-the-readmes-table-comes-from) stands at the end.

"""


def lines_of(path: Path) -> int:
    """Count the lines of a program, without blank ones and comments."""
    return sum(1 for line in path.read_text().splitlines() if line.strip() and not line.strip().startswith("#"))


def title_of(name: str) -> str:
    """Return the docstring of a program's package."""
    found = re.match(r'"""(.*?)"""', (PROGRAMS / name / "__init__.py").read_text(), re.DOTALL)
    assert found is not None, name
    return re.split("[:;.]", found[1].strip())[0]


def anchor_of(name: str) -> str:
    """Return what the heading of a program can be linked by."""
    return re.sub(r"[^\w\- ]", "", title_of(name)).lower().replace(" ", "-")


def page() -> str:
    """Return the whole page."""
    text = HEAD
    text += f"| | {' | '.join(CLIENTS.values())} |\n|---|{'---:|' * len(CLIENTS)}\n"
    for name in NOTES:
        text += f"| [{title_of(name)}](#{anchor_of(name)}) |"
        for client in CLIENTS:
            path = PROGRAMS / name / f"with_{client}.py"
            link = f"[{lines_of(path)}](../{path.relative_to(ROOT)})" if path.exists() else "none"
            text += f" {link} |"
        text += "\n"
    for name, note in NOTES.items():
        text += f"\n## {title_of(name)}\n\n{note}\n"
        for variant, said in VARIANTS.items():
            path = PROGRAMS / name / f"with_{variant}.py"
            if path.exists():
                text += f"\n{said + ':' + chr(10) * 2 if said else ''}<!-- not run: tests/examples runs it -->\n"
                text += f"```python\n{path.read_text().strip()}\n```\n"
    return f"{text}\n{BY_HAND}{PAGE.read_text().partition(BY_HAND)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
