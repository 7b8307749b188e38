"""The releases of Kafka for tests: the origin of their jars, and how to start them."""

from __future__ import annotations

from dataclasses import dataclass

#: The one of `make test`.
LATEST = "4.3.1"
#: The newest, in the matrix and as judge of messages.
NEWEST = "4.4.0"

_OPENS = ("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED")
_LOG4J1 = "org.slf4j:slf4j-log4j12:1.7.25"
_LOG4J2 = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3"
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"


@dataclass(frozen=True)
class Release:
    """One release of Kafka.

    :param version: as in its jars
    :param scala: the Scala version that its broker is built with
    :param extra: coordinates of jars that it needs besides its own
    :param jvm_options: what it wants of a JVM 17
    :param kraft: it runs without ZooKeeper
    """

    version: str
    scala: str = "2.13"
    extra: tuple[str, ...] = (_LOG4J1,)
    jvm_options: tuple[str, ...] = _OPENS
    kraft: bool = False

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Return all jars of its brokers, without their dependencies."""
        return (f"org.apache.kafka:kafka_{self.scala}:{self.version}", *self.extra)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))


RELEASES = {
    one.version: one
    for one in (
        Release("0.8.2.2", scala="2.11"),
        Release("0.9.0.1", scala="2.11"),
        Release("0.10.2.2", scala="2.11", extra=(_LOG4J1, _JAXB)),
        Release("0.11.0.3", scala="2.12", extra=(_LOG4J1, _JAXB)),
        Release("1.1.1", scala="2.12", jvm_options=(*_OPENS, "-Dzookeeper.jmx.log4j.disable=true")),
        Release("2.8.2"),
        Release("3.9.2"),
        Release(LATEST, extra=(_LOG4J2,), jvm_options=(), kraft=True),
        Release(NEWEST, extra=(_LOG4J2,), jvm_options=(), kraft=True),
    )
}


def release(version: str) -> Release:
    """Return a release; an unlisted one counts as 4.x or later.

    :raises ValueError: it is older than that
    """
    if version in RELEASES:
        return RELEASES[version]
    if version[:1].isdigit() and int(version.split(".", maxsplit=1)[0]) >= 4:
        return Release(version, extra=(_LOG4J2,), jvm_options=(), kraft=True)
    raise ValueError(f"nothing is known of Kafka {version}: use one of {', '.join(RELEASES)}, or a 4.x")
