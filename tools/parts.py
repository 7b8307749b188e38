"""The tests, cut into named parts: paths, release of Kafka, and duration of each."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import NamedTuple

from tools.pythons import LATER, can_fetch, find
from tools.same_cases import SAME_CASES


def without(paths: list[str]) -> list[str]:
    """Return pytest's options that ignore files: a part that names a directory includes its new files."""
    return [f"--ignore={path}" for path in paths]


RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2", "4.3.1", "4.4.0")
#: The newest, with all parts of `make test` that depend on the shared brokers, besides the one that `make test` uses.
NEWEST = RELEASES[-1]
INTEGRATION = "tests/integration"
NOT_SLOW = ["-m", "not slow and not matrix"]
#: The core for every release: produce, consume, offsets, codecs, groups through ZooKeeper and through the brokers, the
#: documented requests; on threads and on greenlets.
CORE = [
    f"{INTEGRATION}/{name}.py"
    for name in (
        "test_produce_consume",
        "groups/test_balanced",
        "groups/test_balanced_callback",
        "groups/test_managed",
        "protocol/test_documented",
    )
]
#: What the fake cluster is held to.
CORE += ["tests/conformance/test_recorded.py"]
CORE += ["-m", "not slow"]
#: What `make test` runs of the core on old releases, each with the groups of its time; the matrix has the rest.
CORE_OF_ZOOKEEPER, CORE_OF_BROKERS = (
    [path for path in CORE[:-2] if kind not in path] + NOT_SLOW for kind in ("test_managed", "test_balanced")
)
#: The releases with the whole suite, in two parts, besides the latest release, which `make test` uses.
WHOLE = ("0.9.0.1", "2.8.2")
FIVE_MILLION = f"{INTEGRATION}/producer/test_in_flight_window.py::test_five_million_messages"
#: All tests that depend on the release of the shared brokers.
SUITE = [INTEGRATION, "-m", "kafka and not matrix"]
OWN_BROKERS = f"{INTEGRATION}/test_brokers.py"
KILLED = f"{INTEGRATION}/test_killed_brokers.py"
SUITE += without([OWN_BROKERS, KILLED])
#: Proofs that nothing is lost, which have parts of their own: their long forms are for hours of spare time.
CHURN = f"{INTEGRATION}/groups/test_consumer_churn.py"
CLIENTS = [f"{INTEGRATION}/consumer/test_foreign_transactions.py", f"{INTEGRATION}/groups/test_consumer_clients.py"]
PROOFS = [KILLED, CHURN, *CLIENTS]
#: Brokers that are stopped, killed and hung, and programs: each brings a cluster of its own.
OUTAGES = [f"{INTEGRATION}/test_{name}.py" for name in ("benchmarks", "brokers", "closing", "failures")]
OUTAGES += [f"{INTEGRATION}/producer/test_in_flight_window.py"]
#: Members of groups, and their commits.
GROUPS = [
    f"{INTEGRATION}/groups/test_{name}.py"
    for name in (
        "balanced",
        "balanced_callback",
        "balanced_commits",
        "balanced_fork",
        "commit_order",
        "commits",
        "interrupted_joins",
        "lost_membership",
        "managed",
        "migration",
        "static_topics",
        "staying",
        "zookeeper_members",
    )
]
#: Members that read many topics, and parallel work of such members.
MANY_TOPICS = [
    f"{INTEGRATION}/groups/test_classic{part}.py" for part in ("", "_assignors", "_cooperative", "_mixed", "_outages")
]
MANY_TOPICS += [
    f"{INTEGRATION}/groups/test_consumer_{part}.py"
    for part in ("attacks", "cooperative", "groups", "histories", "interrupted", "many")
]
MANY_TOPICS += [f"{INTEGRATION}/parallel/test_groups.py"]
#: The tests whose members mostly name no protocol, and so take the one that "auto" means.
BY_DEFAULT = [
    *(f"{INTEGRATION}/groups/test_{name}.py" for name in ("commit_order", "interrupted_joins", "migration")),
    *(
        f"{INTEGRATION}/groups/test_consumer_{part}.py"
        for part in ("attacks", "groups", "histories", "interrupted", "many")
    ),
    *(f"{INTEGRATION}/{name}.py" for name in ("parallel/test_groups", "consumer/test_silent_coordinator")),
]
#: Members of the next-generation protocol (KIP-848).
NEXT_GENERATION = [f"{INTEGRATION}/groups/test_kip848{part}.py" for part in ("", "_mixed", "_outages")]
NEXT_GENERATION += [f"{INTEGRATION}/groups/test_upgrades.py"]
NEXT_GENERATION_CONSUMERS = f"{INTEGRATION}/groups/test_kip848_consumers.py"
#: Transactions that lose partitions, answers or their turn.
TRANSACTIONS = [
    f"{INTEGRATION}/producer/test_transactions_{part}.py" for part in ("rebalanced", "shared", "unanswered")
]
#: Transactions, share groups, and groups that share out at the broker.
TODAY = [
    f"{INTEGRATION}/producer/test_{name}.py"
    for name in (
        "exactly_once",
        "exactly_once_killed",
        "transactions",
        "transactions_attacked",
        "transactions_denied",
        "transactions_made_anew",
    )
]
TODAY += [*TRANSACTIONS, f"{INTEGRATION}/sharegroups", *NEXT_GENERATION, NEXT_GENERATION_CONSUMERS]
GROUPS += MANY_TOPICS
GROUPS += [
    f"{INTEGRATION}/groups/test_managed_{name}.py"
    for name in ("coordinator", "endings", "heartbeats", "mixed", "outages", "static", "topics")
]
#: Groups together with other clients, through minutes of computing.
MANAGED = [f"{INTEGRATION}/groups/test_managed_{name}.py" for name in ("mixed", "static", "heartbeats")]
#: Tests that mostly wait; `make test` leaves some of their cases to the matrix.
CASES = [
    f"{INTEGRATION}/groups/test_{name}.py"
    for name in (
        "balanced",
        "balanced_fork",
        "commits",
        "managed",
        "managed_coordinator",
        "managed_endings",
        "managed_outages",
        "staying",
    )
]
CASES += [
    f"{INTEGRATION}/{name}.py"
    for name in (
        "groups/test_managed_topics",
        "groups/test_static_topics",
        "metadata/test_internal_topics",
        "metadata/test_partitions",
        "network/test_throttling",
        "network/test_tls",
        "producer/test_any_topic",
        "producer/test_in_flight_window",
        "producer/test_lost_leader",
        "producer/test_transactions",
        "telemetry/test_telemetry",
    )
]
CASES += [
    f"{INTEGRATION}/consumer/test_{name}.py"
    for name in ("added_partitions", "any_topic", "isolation", "memory", "shrunk_topics", "silent_coordinator")
]
CASES += [f"{INTEGRATION}/admin/test_{name}.py" for name in ("cluster", "deadlines", "streams")]
CASES += [f"{INTEGRATION}/test_failures.py", f"--deselect={FIVE_MILLION}"]
#: Logins, administration, command lines and configuration files.
ACCESS = [f"{INTEGRATION}/{name}" for name in ("security", "admin", "cli", "config")]
#: What an event loop can make a difference to: logins by ticket and renewed credentials have parts of their own.
ACCESS_ON_LOOPS = [f"{INTEGRATION}/{name}" for name in ("security", "admin", "config")]
ON_ASYNCIO = ["--concurrency=asyncio", "-k", "asyncio"]
#: Groups through ZooKeeper, in its outages, and together with other clients.
BALANCED = [
    f"{INTEGRATION}/groups/test_{name}.py" for name in ("balanced_outages", "balanced_mixed", "zookeeper_outages")
]
#: Pipelines, as Python calls them and as programs.
SPARK_PIPELINES = [
    f"tests/spark/test_{name}.py"
    for name in (
        "pipeline",
        "pipeline_files",
        "pipeline_programs",
        "pipeline_sinks",
        "pipeline_stops",
        "pipeline_terminal",
    )
]
#: Programs that start Spark themselves, and Spark that is killed.
SPARK_PROGRAMS = [
    f"tests/spark/test_{name}.py" for name in ("connect", "exactly_once_killed", "executor_faults", "kill", "shipping")
]
#: The environments with another PySpark, by its release: those whose own connector is published.
PYSPARKS = {"4.0": ".venvs/spark40", "4.1": ".venvs/spark41", "4.2": ".venvs/spark42"}
#: Source and sink together with Spark's own connector.
SPARK_CONNECTOR = [f"tests/spark/test_{name}.py" for name in ("interchange", "jvm_connector")]
#: All other tests of Spark.
SPARK_ALONE = ["tests/spark", *without([*SPARK_PIPELINES, *SPARK_PROGRAMS, *SPARK_CONNECTOR]), "-m", "not matrix"]
#: Avro, Protobuf and JSON Schema, with a real registry.
SPARK_FORMATS = ["tests/spark/test_formats.py", "tests/spark/test_from_avro.py"]
#: Reading from PySpark.
SPARK = [f"tests/spark/test_{name}.py" for name in ("batch_read", "positions", "transactions")]
#: What a PySpark before the newest can do otherwise: batches and streams beside Spark's own connector on the same topics, the
#: sink, and progress. The matrix has its reading by itself, as `spark` has on the newest.
BESIDE_THE_CONNECTOR = [*SPARK_CONNECTOR, *(f"tests/spark/test_{name}.py" for name in ("lag", "sink"))]
READING = [f"tests/spark/test_{name}.py" for name in ("batch_read", "stream_read")]
#: Certificates and credentials that change while clients run.
PUT_RIGHT = {
    "put-right": f"{INTEGRATION}/security/test_put_right.py",
    "rolling": f"{INTEGRATION}/security/test_rolling.py",
    "replaced": f"{INTEGRATION}/security/test_replaced_credentials.py",
}
KERBEROS_BROKERS = f"{INTEGRATION}/security/test_kerberos_brokers.py"
#: Logins with tickets: they need a library of this machine.
KERBEROS = f"{INTEGRATION}/security/test_kerberos.py"
KERBEROS_LIBRARY = "libgssapi_krb5.so.2"
#: The contract of handlers, programs of PyKafka 2, and checks by Kafka's own classes.
PROMISES = [f"tests/{name}" for name in ("contract", "java_judge", "regressions")]
#: Installing into clean environments.
INSTALLING = [f"tests/regressions/test_{name}.py" for name in ("replaced_product", "no_compiler")]
#: The programs of docs/comparison.md: ours; the matrix has those with other clients.
FIRST_WEEK = "tests/examples/test_first_week.py"
#: The programs of docs/worker-pools.md.
WORKER_POOLS = "tests/examples/test_worker_pools.py"
#: Prefork servers whose workers are scraped.
PROMETHEUS_SERVERS = "tests/examples/test_prometheus_servers.py"
#: The queries of the dashboards, run by a real Prometheus.
PROMETHEUS_QUERIES = ["tests/examples/test_prometheus_queries.py", "tests/examples/test_dashboards_in_trouble.py"]
#: Tests on an embedded cluster, and the programs of the pages.
EMBEDDED = ["tests/embedded", "tests/docs"]
#: Those of them about what users see of a client, and the pages: a part of their own.
SEEING_IN = [
    *(f"tests/embedded/{name}" for name in ("health", "metrics", "otel", "prometheus", "telemetry")),
    "tests/docs",
]
#: The fake cluster, and what is tried on it.
FAKE = [f"tests/{name}" for name in ("testing", "conformance", "mutations")]
#: Seeds of the simulation: those of the commit in `make test`, thousands of others in the matrix.
SEEDS = "tests/testing/test_seeds.py"
#: Tests without a broker, or with an embedded one: some seconds each.
QUICK = [
    f"tests/{name}" for name in ("unit", "embedded", "testing", "conformance", "property", "contract", "regressions")
]
#: Where a release of Python may make a difference: all of those, the core on a real broker, a job of Spark.
OTHER_PYTHON = [*QUICK, *CORE[:-2], "tests/spark/test_batch_read.py", *NOT_SLOW]
#: The same for a release that confluent-kafka has no wheels for yet: tests of the embedded cluster have clients of librdkafka.
NEW_PYTHON = [
    *(
        "tests/contract",
        "tests/property",
        f"{INTEGRATION}/test_produce_consume.py",
        f"{INTEGRATION}/groups/test_managed.py",
    ),
    *(f"tests/unit/{name}" for name in ("consumer", "handlers", "network", "producer", "protocol", "transactions")),
    *NOT_SLOW,
]
#: What differs from OTHER_PYTHON: PyKafka 2.8.0, which old programs are compared with, does not import on 3.14.
ON_PYTHON = {
    "3.14": [*OTHER_PYTHON, *without(["tests/regressions/test_old_programs.py"])],
    "3.15": NEW_PYTHON,
}
#: Tests of rooms without a compiled module that run with the uncompiled sources all the same: transactions end batches in ways
#: of their own.
NEVERTHELESS = ["tests/embedded/transactions"]


def uncompiled(root: Path) -> list[str]:
    """Return the directories of tests whose rooms have no module with a `.pxd`.

    :param root: of the checkout
    """
    directories = [path for top in ("unit", "embedded") for path in sorted((root / "tests" / top).iterdir())]
    names = [path.relative_to(root).as_posix() for path in directories if any(path.glob("**/test_*.py"))]
    return [
        name
        for name in names
        if name not in NEVERTHELESS and not any((root / "pykafka" / Path(name).name).glob("**/*.pxd"))
    ]


#: Those that use no compiled module, or only code that other tests cover, so that the pure sources cannot change their result;
#: `quick-pure` runs them nevertheless. Rooms without a compiled module come by themselves. Of the others, leave a file out of
#: this list if in doubt.
SAME = [
    *uncompiled(Path(__file__).resolve().parents[1]),
    # handlers and connections
    "tests/contract",
    *(f"tests/unit/handlers/test_{name}.py" for name in ("greenlets", "no_thread", "sockets")),
    "tests/unit/test_freeing.py",
    *(
        f"tests/unit/network/test_{name}.py"
        for name in ("channel", "connection", "frames", "in_flight", "requests", "throttling")
    ),
    *(
        f"tests/unit/network/test_{name}.py"
        for name in ("authentication", "keeping", "known_versions", "proxies", "reauthentication", "revoked")
    ),
    # names, errors and logging
    "tests/unit/utils",
    *(f"tests/unit/network/test_{name}.py" for name in ("addresses", "client_id")),
    # requests without their records, versions, sequence numbers
    *(f"tests/unit/protocol/test_{name}.py" for name in ("limits", "messages", "schema", "versions")),
    "tests/unit/producer/test_in_flight_window.py",
    # ten thousand leaders and partitions: their number matters, and other tests take the same steps for few
    "tests/unit/producer/test_many_leaders.py",
    "tests/unit/consumer/test_many_partitions.py",
    *(f"tests/property/test_{name}.py" for name in ("avro_exactness", "compression", "idempotence", "schema")),
    # packaging, documents, imports as text; programs, each of which is a process of its own
    *(
        f"tests/unit/test_{name}.py"
        for name in ("docstrings", "documented_names", "layers", "packaging", "public_names")
    ),
    "tests/unit/test_old_names.py",
    *(f"tests/regressions/test_old_{name}.py" for name in ("code", "names", "programs")),
    "tests/embedded/test_process_end.py",
    # threads that another library has patched
    "tests/embedded/test_eventlet.py",
    # reactions to errors, and members and closes, which mostly wait
    "tests/embedded/consumer/test_recovery.py",
    "tests/embedded/producer/test_retrying.py",
    *(f"tests/embedded/consumer/test_{name}.py" for name in ("commit_order", "commits", "partitions_away")),
    "tests/embedded/consumer/test_unknown_commits.py",
    *(f"tests/embedded/test_{name}.py" for name in ("dropped", "dropped_before_close", "interrupted_close")),
    # the embedded cluster itself, seen by another client; logging
    "tests/testing",
    "tests/conformance",
    *(f"tests/embedded/test_{name}.py" for name in ("embedded", "loglimit")),
    # Spark's planning
    *(f"tests/unit/spark/test_{name}.py" for name in ("import", "offsets", "options", "shipping")),
    *(
        f"tests/unit/spark/test_pipeline_{name}.py"
        for name in ("checks", "command", "declaration", "mistakes", "progress", "tables")
    ),
    *(f"tests/unit/spark/test_{name}.py" for name in ("stream", "tls_options")),
    *(
        f"tests/unit/spark/formats/test_{name}.py"
        for name in ("json_schema_random", "json_schema_shapes", "protobuf", "protobuf_language", "protobuf_maps")
    ),
]
#: Tests against real brokers of the modules that may be compiled.
PURE = [f"{INTEGRATION}/{name}.py" for name in ("test_produce_consume", "test_fork", "consumer/test_batches")]


class Part(NamedTuple):
    """One run of pytest.

    :param release: release of the shared brokers
    :param arguments: arguments of pytest
    :param minutes: that it takes on two cores, rounded up
    :param directory: of the virtual environment, which the Makefile makes; None: the one that runs this
    :param pure: with the uncompiled sources
    :param members: protocol of consumers in groups that name none; None: "auto", as users have it
    """

    release: str
    arguments: list[str]
    minutes: float
    directory: str | None = None
    pure: bool = False
    members: str | None = None


def whole(release: str) -> dict[str, Part]:
    """Return the whole suite in two parts, on a release."""
    return {
        f"whole-{release}": Part(release, [*SUITE, *without(OUTAGES)], 8),
        f"outages-{release}": Part(release, ["-m", "kafka and not matrix", *OUTAGES, *without([OWN_BROKERS])], 5),
    }


def has_library(name: str) -> bool:
    """Return whether the system has a shared library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


#: {part: why it is not listed on this machine}
UNLISTED = {}
if not has_library(KERBEROS_LIBRARY):
    UNLISTED["kerberos"] = UNLISTED["kerberos-spark"] = f"needs {KERBEROS_LIBRARY} (libgssapi-krb5-2, krb5-libs)"
if shutil.which("prometheus") is None and shutil.which("apt-get") is None:
    UNLISTED["prometheus"] = "needs Prometheus, or apt-get, which fetches Debian's package"
if shutil.which("krb5-config") is None:
    UNLISTED["kerberos-package"] = "needs Kerberos' headers with krb5-config (libkrb5-dev, krb5-devel)"

#: What `make test` runs, up to eight at a time, as most of them wait: the long ones first. Minutes are those of eight together.
TEST = {
    # At a lower priority: from the beginning on it takes what others leave of the cores.
    "simulation": Part("4.3.1", [SEEDS, "-m", "not matrix"], 14),
    "kafka": Part(
        "4.3.1", [INTEGRATION, *without([*OUTAGES, *GROUPS, *ACCESS, *PROOFS, *TODAY]), "-m", "not matrix"], 18
    ),
    # Whatever no other part has.
    "quick": Part(
        "4.3.1",
        [
            "tests",
            *without(["tests/spark", "tests/examples", INTEGRATION, *PROMISES, *EMBEDDED, *FAKE]),
            "-m",
            "not matrix",
        ],
        16,
    ),
    "embedded": Part("4.3.1", ["tests/embedded", *without(SEEING_IN), "-m", "not matrix"], 16),
    "pure": Part(
        "4.3.1",
        # pytest ignores nothing that is named itself
        [*(path for path in QUICK if path not in SAME), *PURE, *without(SAME), *SAME_CASES, *NOT_SLOW],
        16.5,
        pure=True,
    ),
    "seeing-in": Part("4.3.1", [*SEEING_IN, "-m", "not matrix"], 14),
    "spark-programs": Part(
        "4.3.1", ["tests/examples", *without([FIRST_WEEK]), *SPARK_PROGRAMS, "-m", "not matrix"], 8.5
    ),
    "groups": Part("4.3.1", [*GROUPS, "-m", "not matrix"], 11),
    "access": Part("4.3.1", [*ACCESS, "-m", "not matrix"], 11),
    "today": Part("4.3.1", [*TODAY, "-m", "not matrix"], 9),
    "outages": Part("4.3.1", [*OUTAGES, "-m", "not matrix"], 5),
    # With the pipelines: one session and one broker.
    "spark": Part("4.3.1", ["tests/spark", *without(SPARK_PROGRAMS), "-m", "not matrix"], 8.5),
    "fake": Part("4.3.1", [*FAKE, *without([SEEDS]), "-m", "not matrix"], 8),
    "promises": Part("4.3.1", [*PROMISES, FIRST_WEEK, "-m", "not matrix"], 6),
    "spark-4.2": Part("2.8.2", [*BESIDE_THE_CONNECTOR, "-m", "not matrix"], 3, ".venvs/spark42"),
    "proofs": Part("4.3.1", [*PROOFS, "-m", "not matrix"], 2),
    "core-0.9.0.1": Part("0.9.0.1", CORE_OF_ZOOKEEPER, 2),
    "core-2.8.2": Part("2.8.2", CORE_OF_BROKERS, 2),
}
MATRIX = {
    **{f"core-{release}": Part(release, CORE, 2) for release in RELEASES if f"core-{release}" not in TEST},
    **{name: part for release in WHOLE for name, part in whole(release).items()},
    **{
        f"{name}-{NEWEST}": TEST[name]._replace(
            release=NEWEST, arguments=[*TEST[name].arguments, *without([OWN_BROKERS])]
        )
        for name in ("kafka", "today", "access", "groups", "outages")
    },
    **{f"spark-on-{release}": Part(release, SPARK, 3) for release in RELEASES},
    "quick-pure": Part("4.3.1", [*QUICK, *NOT_SLOW], 6, pure=True),
    "whole-pure": Part("4.3.1", [*SUITE, *without(OUTAGES)], 8, pure=True),
    "outages-pure": Part("4.3.1", ["-m", "kafka and not matrix", *OUTAGES, *without([OWN_BROKERS])], 6, pure=True),
    # Eight thousand seeds each time: twelve rotations are a hundred thousand.
    "simulation-long": Part("4.3.1", [SEEDS, "-m", "matrix"], 8),
    "installing": Part("4.3.1", ["-m", "matrix", *INSTALLING], 2),
    "site": Part("4.3.1", ["-m", "matrix", "tests/docs/test_site.py"], 3),
    "first-week": Part("4.3.1", [FIRST_WEEK, "-m", "matrix"], 2),
    "health": Part("4.3.1", ["tests/examples/test_health.py", f"{INTEGRATION}/health", "-m", "matrix"], 3),
    "worker-pools": Part("4.3.1", [WORKER_POOLS, PROMETHEUS_SERVERS], 5, ".venvs/pools"),
    "prometheus": Part("4.3.1", PROMETHEUS_QUERIES, 5),
    "churn-zookeeper": Part("4.3.1", [f"{INTEGRATION}/groups/test_balanced_churn.py", "-k", "zookeeper"], 5),
    "churn-managed": Part("4.3.1", [f"{INTEGRATION}/groups/test_balanced_churn.py", "-k", "managed"], 5),
    "transactions": Part("4.3.1", ["-m", "matrix", *TRANSACTIONS], 4),
    # Coordinators that know version 1 of transactions alone.
    "transactions-2.8.2": Part("2.8.2", TRANSACTIONS, 5),
    "groups-managed": Part("4.3.1", ["-m", "matrix", *MANAGED], 3),
    # What "auto" takes on brokers before 4.0, and a user can choose on later ones.
    f"groups-classic-{NEWEST}": Part(NEWEST, [*BY_DEFAULT, "-m", "not matrix"], 4, members="classic"),
    "groups-next-generation": Part("4.3.1", ["-m", "matrix", *NEXT_GENERATION], 8),
    "groups-next-generation-consumers": Part("4.3.1", ["-m", "matrix and not slow", NEXT_GENERATION_CONSUMERS], 7),
    "churn-next-generation": Part("4.3.1", ["-m", "slow", NEXT_GENERATION_CONSUMERS], 8),
    "share-groups": Part("4.3.1", ["-m", "matrix", f"{INTEGRATION}/sharegroups"], 3),
    "groups-many-topics": Part("4.3.1", ["-m", "matrix", *MANY_TOPICS], 8),
    "cases": Part("4.3.1", ["-m", "matrix", *CASES], 7),
    "cases-embedded": Part("4.3.1", ["-m", "matrix", "tests/unit", "tests/embedded"], 4),
    "groups-balanced": Part("4.3.1", ["-m", "matrix", *BALANCED], 6),
    **{
        f"cut-connections-{release}": Part(
            release, ["-m", "matrix", f"{INTEGRATION}/network/test_cut_connections.py"], 5
        )
        for release in ("0.11.0.3", "2.8.2", "4.3.1")
    },
    **{
        f"moving-brokers-{release}": Part(release, ["-m", "matrix", f"{INTEGRATION}/network/test_following.py"], 5)
        for release in ("2.8.2", "4.3.1")
    },
    **{
        f"security-{release}": Part(release, [f"{INTEGRATION}/security", "-m", "not matrix"], 3)
        for release in ("0.10.2.2", "3.9.2")
    },
    "security": Part(
        "4.3.1",
        [f"{INTEGRATION}/security", "-m", "matrix", *without([KERBEROS_BROKERS, KERBEROS, *PUT_RIGHT.values()])],
        3,
    ),
    **{name: Part("4.3.1", ["-m", "matrix", path], 5) for name, path in PUT_RIGHT.items()},
    "kerberos-brokers": Part("4.3.1", [KERBEROS_BROKERS], 3),
    # The same tests by the binding of the tests, over the system's library, and by the package that users install.
    "kerberos": Part("4.3.1", [KERBEROS], 4),
    "kerberos-package": Part("4.3.1", [KERBEROS], 4, ".venvs/gssapi"),
    "kerberos-spark": Part("4.3.1", ["tests/spark/test_kerberos.py"], 3),
    "lost-and-replicas": Part(
        "4.3.1",
        [
            "-m",
            "matrix",
            *(f"{INTEGRATION}/consumer/test_{name}.py" for name in ("truncation", "closest_replica", "fetch_sessions")),
        ],
        5,
    ),
    # Brokers of three releases that are cut off from ZooKeeper or the controller.
    "isolated-leaders": Part("4.3.1", ["-m", "matrix", f"{INTEGRATION}/test_isolated_leaders.py"], 3),
    "closing": Part("4.3.1", ["-m", "matrix", f"{INTEGRATION}/test_closing.py"], 4),
    # Two hundred kills of brokers, coordinators and workers.
    **{
        f"exactly-once-{turn}": Part(
            "4.3.1", [f"{INTEGRATION}/producer/test_exactly_once_killed.py", "-m", "matrix", "-k", turn], 8
        )
        for turn in ("first", "second")
    },
    # Two hundred kills of brokers, fifty a part, under idempotent producers and cooperative members.
    **{
        f"killed-brokers-{kind}-{turn}": Part("4.3.1", [KILLED, "-m", "matrix", "-k", f"{kind} and {turn}"], 8)
        for kind in ("threads", "greenlets")
        for turn in ("first", "second")
    },
    "killed-brokers-asyncio": Part(
        "4.3.1", [KILLED, CHURN, *ON_ASYNCIO[:1], "-k", "asyncio and not long and not second"], 8
    ),
    # A thousand rebalances of each assignor, half of them on each handler.
    **{
        f"churn-{assignor}-{kind}": Part("4.3.1", [CHURN, "-m", "matrix", "-k", f"long and {kind} and {assignor}"], 8)
        for kind in ("threads", "greenlets")
        for assignor in ("range", "cooperative")
    },
    "other-clients": Part("4.3.1", ["-m", "matrix", *CLIENTS], 4),
    "registry": Part("4.3.1", ["-m", "matrix", f"{INTEGRATION}/serialization"], 2),
    # Clients on an event loop: the integration suite as far as its tests take a client of `concurrency`.
    **{
        f"asyncio-{name}": Part("4.3.1", [*paths, *ON_ASYNCIO], minutes)
        for name, (paths, minutes) in {
            "core": ([INTEGRATION, *without([*OUTAGES, *GROUPS, *ACCESS, KILLED, CHURN])], 8),
            # kazoo does not run on an event loop
            "groups": ([path for path in GROUPS if "balanced_commits" not in path], 8),
            "access": (ACCESS_ON_LOOPS, 8),
            "outages": (OUTAGES, 8),
        }.items()
    },
    "uvloop": Part("4.3.1", [*CORE[:-2], "tests/embedded", "--concurrency=uvloop", "-k", "uvloop"], 5),
    "idempotence-threads": Part("4.3.1", [FIVE_MILLION, "-k", "threads"], 5),
    "idempotence-greenlets": Part("4.3.1", [FIVE_MILLION, "-k", "greenlets"], 5),
    **{f"whole-spark-{release}": Part("4.3.1", SPARK_ALONE, 8, venv) for release, venv in PYSPARKS.items()},
    **{
        f"pipelines-spark-{release}": Part("4.3.1", [*SPARK_PIPELINES, "-m", "not matrix"], 8, venv)
        for release, venv in PYSPARKS.items()
    },
    **{
        f"programs-spark-{release}": Part("4.3.1", [*SPARK_PROGRAMS, "-m", "not matrix"], 6, venv)
        for release, venv in PYSPARKS.items()
    },
    "reading-spark-4.2": Part("2.8.2", [*READING, "-m", "not matrix"], 4, ".venvs/spark42"),
    **{f"connector-spark-{release}": Part("4.3.1", SPARK_CONNECTOR, 8, venv) for release, venv in PYSPARKS.items()},
    **{
        f"python-{release}": Part("4.3.1", ON_PYTHON.get(release, OTHER_PYTHON), 8, f".venvs/python{release}")
        for release in LATER
        if find(release) or can_fetch(release)
    },
    # Formats of tables, each with the newest release that its jars are made for.
    "spark-delta": Part("4.3.1", ["tests/spark/test_pipeline_lakes.py", "-k", "delta"], 5, ".venvs/spark42"),
    "spark-iceberg": Part("4.3.1", ["tests/spark/test_pipeline_lakes.py", "-k", "iceberg"], 5, ".venvs/spark41"),
    "pipelines-signals": Part(
        "4.3.1",
        ["-m", "matrix", *(f"tests/spark/test_pipeline_{name}.py" for name in ("programs", "stops", "terminal"))],
        8,
    ),
    "pipelines-sinks": Part(
        "4.3.1", ["-m", "matrix", *(f"tests/spark/test_pipeline{name}.py" for name in ("", "_files", "_sinks"))], 8
    ),
    "spark-security": Part(
        "4.3.1",
        ["-m", "matrix", *(f"tests/spark/test_{name}.py" for name in ("exactly_once_denied", "logins", "secrets"))],
        4,
    ),
    "spark-killed": Part(
        "4.3.1", ["tests/spark/test_kill.py", "tests/examples/test_flights.py", "-m", "matrix", "-k", "not cluster"], 8
    ),
    # Thirty kills, one after the other, in a cluster of Spark: ten a part.
    **{
        f"spark-kills-{turn}": Part(
            "4.3.1", ["tests/spark/test_kill.py", "-m", "matrix", "-k", f"cluster and {turn}]"], 8
        )
        for turn in (1, 2, 3)
    },
    # A hundred kills of a query that writes in transactions, brokers among them: twenty-five a part.
    **{
        f"spark-exactly-once-{turn}": Part(
            "4.3.1", ["tests/spark/test_exactly_once_killed.py", "-m", "matrix", "-k", f"{turn}]"], 8
        )
        for turn in (1, 2, 3, 4)
    },
    "spark-job": Part("4.3.1", ["tests/examples/test_spark.py", "-m", "matrix"], 2),
    "spark-decisions": Part("4.3.1", ["tests/spark/test_decisions.py", "-m", "matrix"], 2),
    "demo-on-a-cluster": Part("4.3.1", ["tests/examples/test_flights.py", "-m", "matrix", "-k", "cluster"], 5),
    "shipping": Part(
        "4.3.1", [*(f"tests/spark/test_{name}.py" for name in ("connect", "shipping")), "-m", "matrix"], 6
    ),
    "spark-declarative": Part("4.3.1", ["tests/spark/test_declarative_pipelines.py", "-m", "matrix"], 4),
    "spark-formats": Part("4.3.1", [*SPARK_FORMATS, "-m", "matrix"], 5),
    "tools": Part(
        "4.3.1", [*(f"{INTEGRATION}/cli/test_{name}.py" for name in ("lag", "old_brokers", "page")), "-m", "matrix"], 5
    ),
    "rdkafka": Part("4.3.1", [f"{INTEGRATION}/compat/rdkafka"], 5),
}
MATRIX = {name: part for name, part in MATRIX.items() if name not in UNLISTED}
PARTS = TEST | MATRIX
