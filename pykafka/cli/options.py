"""The common options as a session, and options that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from pykafka.cli.offset_spec import parse_offset_spec
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from pykafka.cli.zookeeper import ZooKeeperTopics
    from pykafka.cli.zookeeper_groups import ZooKeeperGroups
    from pykafka.client import KafkaClient
    from pykafka.network.options import ConnectionSettings
    from pykafka.security import SslConfigLike

T = TypeVar("T")
#: How long a shell waits for names (ms), at each step of connecting and asking.
COMPLETION_TIMEOUT_MS = 1500


class Session:
    """The connection that the common options describe.

    :param hosts: "host:port,host:port"
    :param zookeeper: "host:port/chroot" that knows the brokers; None for none
    :param socket_timeout_ms: timeout of connects and responses
    :param ssl_config: None for plaintext
    :param arguments: further arguments of KafkaClient, of a configuration
    :param names_brokers: whether `hosts` was given, and is not the default
    """

    def __init__(
        self,
        hosts: str,
        zookeeper: str | None,
        socket_timeout_ms: int,
        ssl_config: SslConfigLike | None,
        arguments: Mapping[str, Any] | None = None,
        names_brokers: bool = False,
    ) -> None:
        self.hosts = hosts
        self.zookeeper = zookeeper
        self.socket_timeout_ms = socket_timeout_ms
        self.ssl_config = ssl_config
        self.names_brokers = names_brokers
        self._arguments = dict(arguments or {})
        self._kept: KafkaClient | None = None

    @property
    def settings(self) -> ConnectionSettings:
        """How to make connections."""
        from pykafka.network.options import ConnectionSettings

        return ConnectionSettings.of({**self._arguments, "ssl_config": self.ssl_config})

    def client(self, hosts: str | None = None) -> AbstractContextManager[KafkaClient]:
        """Return a new client, to be closed by `with`; it includes internal topics. With --watch, return the same again.

        :param hosts: replaces the hosts of the options
        :raises NoBrokersAvailableError: no broker answered
        """
        if self._kept is not None and hosts is None:
            return nullcontext(self._kept)
        from pykafka.client import KafkaClient

        given: dict[str, Any] = {
            **self._arguments,
            "hosts": hosts or self.hosts,
            "zookeeper_hosts": None if hosts else self.zookeeper,
            "socket_timeout_ms": self.socket_timeout_ms,
            "offsets_channel_socket_timeout_ms": self.socket_timeout_ms,
            "exclude_internal_topics": False,
            "ssl_config": self.ssl_config,
        }
        return KafkaClient(**given)

    @contextmanager
    def kept(self, client: KafkaClient) -> Iterator[None]:
        """Make `client()` return this client in the block, which leaves it open."""
        self._kept = client
        try:
            yield
        finally:
            self._kept = None

    def seeds(self) -> str:
        """Return the addresses of the first brokers, "host:port,host:port".

        :raises NoBrokersAvailableError: ZooKeeper cannot be reached, or has no brokers
        """
        if self.zookeeper is None:
            return self.hosts
        from pykafka.cli.diagnosis import address_text
        from pykafka.handlers import ThreadingHandler
        from pykafka.metadata.zookeeper import broker_addresses

        found = broker_addresses(self.zookeeper, ThreadingHandler(), self.socket_timeout_ms)
        return ",".join(address_text(host, port) for host, port in found)

    def zookeeper_topics(self, client: KafkaClient) -> ZooKeeperTopics | None:
        """Return the access to topics in ZooKeeper; None without --zookeeper."""
        if self.zookeeper is None:
            return None
        from pykafka.cli.zookeeper import ZooKeeperTopics

        return ZooKeeperTopics(self.zookeeper, client.cluster.handler, self.socket_timeout_ms)

    def zookeeper_groups(self) -> ZooKeeperGroups:
        """Return the access to members of groups in ZooKeeper."""
        from pykafka.cli.zookeeper_groups import ZooKeeperGroups

        return ZooKeeperGroups(self.zookeeper, self.socket_timeout_ms)


#: What kafka-tools decides itself, whatever a configuration says.
_OWN = ("hosts", "zookeeper_hosts", "socket_timeout_ms", "ssl_config", "use_greenlets", "handler")
_OWN_TOO = ("offsets_channel_socket_timeout_ms", "exclude_internal_topics", "allow_auto_create_topics")


#: Where the context keeps which common options stand behind the command.
BEHIND = "pykafka.behind"
#: Where it keeps the function that takes secrets out of the sentence of an error.
REDACT = "pykafka.redact"


def session_of(root: click.Context, **instead: Any) -> Session:
    """Return the session of the common options and of --config; with --verbose, turn the log on.

    :param root: of the program; options that stand on the command line win over the configuration
    :param instead: replaces common options
    :raises click.UsageError: they contradict each other
    """
    given = {**root.params, **instead}
    typed = {name for name in given if root.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    typed |= {*root.meta.get(BEHIND, ()), *instead}
    if given["verbose"]:
        level = logging.INFO if given["verbose"] == 1 else logging.DEBUG
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    cafile, certfile, keyfile = given["cafile"], given["certfile"], given["keyfile"]
    if keyfile and not certfile:
        raise click.UsageError("--keyfile needs --certfile: the certificate of the key")
    wants_tls = given["tls"] or cafile or certfile or keyfile
    path = given.get("config")
    found: Mapping[str, Any] = {}
    if path is not None:
        from pykafka.config import Configuration

        found = Configuration.read(path, hosts=given["host"] if "host" in typed else "").client
    config: SslConfigLike | None = found.get("ssl_config")
    if wants_tls:
        from pykafka.security import SslConfig

        config = SslConfig(cafile, certfile, keyfile)
    arguments = {name: value for name, value in found.items() if name not in (*_OWN, *_OWN_TOO)}

    def chosen(option: str, name: str) -> Any:
        return given[option] if option in typed or name not in found else found[name]

    zookeeper = None if "host" in typed and "zookeeper" not in typed else chosen("zookeeper", "zookeeper_hosts")
    timeout_ms = chosen("socket_timeout_ms", "socket_timeout_ms")
    named = "host" in typed or "hosts" in found
    return Session(chosen("host", "hosts"), zookeeper, timeout_ms, config, arguments, named)


class ParsedType(click.ParamType[T]):
    """The type of an argument whose text a function parses.

    :param name: of the notation, for the help
    :param parse: returns the value; the sentence of its ValueError is the problem
    """

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the value of a text; click also passes what was converted before."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            return self._parse(value)
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)


def _hosts(text: str) -> str:
    from pykafka.network.addresses import parse_hosts

    parse_hosts(text)
    return text


def _zookeeper(text: str) -> str:
    try:
        from pykafka.metadata.zookeeper import check_hosts
    except ImportError as error:
        raise ValueError(str(error)) from None

    try:
        check_hosts(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not an address of ZooKeeper ({error}); write host:port,host:port/chroot"
        ) from None
    return text


#: Addresses of brokers, and of ZooKeeper.
HOSTS, ZOOKEEPER = ParsedType("host:port", _hosts), ParsedType("host:port", _zookeeper)
#: A place in a topic: by offset or time, or by time alone.
OFFSET = ParsedType("offset", parse_offset_spec)
TIME = ParsedType("offset", partial(parse_offset_spec, numbers=False))


class TopicType(click.ParamType[str]):
    """The name of a topic; shells complete it."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the topics of the cluster that begin so; none if it does not answer soon."""
        return _completed(ctx, incomplete, lambda client: [topic.name for topic in client.admin.list_topics()])


class GroupType(click.ParamType[str]):
    """The name of a consumer group; shells complete it."""

    name = "group"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the groups of the cluster that begin so; none if it does not answer soon."""
        return _completed(ctx, incomplete, _groups)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is UTF-8: bytes of the command line may not be."""
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8", param, ctx)
        return str(value)


def _groups(client: KafkaClient) -> list[str]:
    return [group.group for group in client.admin.list_groups(timeout_ms=COMPLETION_TIMEOUT_MS, raise_errors=False)]


def _completed(ctx: click.Context, incomplete: str, names: Callable[[KafkaClient], list[str]]) -> list[CompletionItem]:
    """Return the names that begin as the word at the cursor does.

    The shell waits, and shows nothing of an error: a cluster that does not answer has no names.
    """
    try:
        session = session_of(ctx.find_root(), socket_timeout_ms=COMPLETION_TIMEOUT_MS, verbose=0)
        with session.client() as client:
            found = names(client)
    except (KafkaException, OSError, click.UsageError):
        return []
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def session_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --json to a command, and pass the session as its first argument."""
    return json_option(click.pass_obj(command))


timeout_option = click.option(
    "-t",
    "--timeout",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="How long to wait for the operation to complete (ms).",
)
