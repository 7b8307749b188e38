"""The options of a format: where its schema is, and how records say it.

| option | |
|---|---|
| registry | address of the schema registry; several with commas |
| registry_user, registry_password | login there by user and password |
| registry_token | login there by a bearer token |
| registry_cafile, registry_certfile, registry_keyfile, registry_key_password | certificates for https, files (PEM) |
| registry_allow_cleartext_credentials | "true": no warning in the log when a password or token is sent by http:// |
| registry_timeout_ms | how long to try before the task fails (ms); 60,000 |
| topic | whose subject is `<topic>-value`, or `<topic>-key` if the column is the key |
| subject | the subject, if it is another |
| version | "latest", or the number of the version that rows have; written rows, too |
| schema_file | a file with the schema, instead of a subject's version |
| descriptor_file | Protobuf: a file that protoc wrote with --include_imports --descriptor_set_out |
| message | Protobuf: name of the message; the first one of the schema |
| framing | "confluent" (with a registry), "header" or "none" (without one) |
| column | "value" or "key" |
| register | on writing with `schema_file`: "true" adds it to the subject if it is not there |
| validate | JSON Schema: whether records are checked against the schema; "false" on reading, "true" on writing |
| recursive.fields.max.depth | Avro, Protobuf: levels of a type that contains itself, as in Spark; "-1" refuses such types |
| convert.any.fields.to.json | Protobuf: "true" makes JSON text of each `google.protobuf.Any`, as in Spark |

Names with dots are Spark's own. Spark's `from_avro` says `recursiveFieldMaxDepth`, which Avro takes as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pykafka.config.references import resolved
from pykafka.exceptions import SchemaError
from pykafka.handlers import ThreadingHandler
from pykafka.registry.client import Registry, check_urls
from pykafka.registry.schemas import AVRO, JSON, PROTOBUF, Registered, Schema, topic_subject
from pykafka.security import SslConfig
from pykafka.spark.data_loss import warn
from pykafka.spark.errors import OptionError
from pykafka.utils.redact import concealing

#: Kinds of schemas by format.
KINDS = {"avro": AVRO, "protobuf": PROTOBUF, "json-schema": JSON}
CONFLUENT, HEADER, NONE = "confluent", "header", "none"
_REGISTRY = (
    *("registry_user", "registry_password", "registry_token", "registry_cafile", "registry_certfile"),
    *("registry_keyfile", "registry_key_password", "registry_timeout_ms", "registry_allow_cleartext_credentials"),
)
#: Options of all formats.
COMMON = ("registry", *_REGISTRY, "topic", "subject", "version", "schema_file", "framing", "column")
#: The option about types that contain themselves; its name in Spark's `from_avro`; Spark's largest values, by format.
MAX_DEPTH, _AVRO_MAX_DEPTH = "recursive.fields.max.depth", "recursiveFieldMaxDepth"
DEPTHS = {"avro": 15, "protobuf": 10}
ANY_AS_JSON = "convert.any.fields.to.json"
#: Options of one format, or of writing.
_OWN = {
    "avro": (MAX_DEPTH, _AVRO_MAX_DEPTH),
    "protobuf": ("descriptor_file", "message", MAX_DEPTH, ANY_AS_JSON),
    "json-schema": ("validate",),
}
#: Options that no text may show.
SECRETS = ("registry_password", "registry_token", "registry_key_password")
_TIMEOUT_MS = 60_000

handler = ThreadingHandler()
# A worker is forked from a daemon that asks no registry; a child of other code starts with none of its own. Single steps.
# Beside each are the options that it was made with: a secret that has changed counts from the next question on.
_registries: dict[tuple[int, RegistryOptions], tuple[dict[str, str], Registry]] = {}


def known(format: str, writing: bool = False) -> tuple[str, ...]:
    """Return the names of the options of a format."""
    return (*COMMON, *_OWN[format], *(("register",) if writing else ()))


@dataclass(frozen=True)
class RegistryOptions:
    """How to reach a registry: picklable, and a key of the registries of a process.

    :param items: options, with references to secrets as they were written
    """

    items: tuple[tuple[str, str], ...] = field(repr=False)

    def looked_up(self) -> dict[str, str]:
        """Return the options with references looked up in this process, now.

        :raises ConfigurationError: a reference leads nowhere
        """
        return {name: resolved(text, name, os.environ) for name, text in self.items}

    @staticmethod
    def connect(given: Mapping[str, str], handler: object) -> Registry:
        """Return the registry of options from `looked_up`.

        :raises OptionError: an option is wrong
        """
        files = [given.get(f"registry_{name}") for name in ("cafile", "certfile", "keyfile", "key_password")]
        try:
            return Registry(
                given["registry"],
                handler,  # type: ignore[arg-type]
                user=given.get("registry_user"),
                password=given.get("registry_password"),
                token=given.get("registry_token"),
                ssl_config=SslConfig(*files) if any(files) else None,
                timeout_ms=milliseconds(given.get("registry_timeout_ms")),
                allow_cleartext_credentials=bool(_flag(given, "registry_allow_cleartext_credentials")),
            )
        except ValueError as error:
            raise OptionError(f"the options of the schema registry cannot be used: {error}") from error


@dataclass(frozen=True)
class Side:
    """The options of one column, checked.

    :param format: "avro", "protobuf" or "json-schema"
    :param registry: None without one
    :param subject: in the registry; "" without one
    :param version: there; None for the newest
    :param schema: the text of `schema_file`; None without one
    :param descriptors: the bytes of `descriptor_file`; None without one
    :param message: Protobuf's message; "" for the first one
    :param framing: CONFLUENT, HEADER or NONE
    :param column: "key" or "value"
    :param register: whether to add the schema to the subject
    :param validate: whether to check records of JSON Schema; None for what is usual
    :param max_depth: levels of a type that contains itself; 0 refuses such types
    :param any_as_json: whether rows have Protobuf's Any as JSON text
    """

    format: str
    registry: RegistryOptions | None
    subject: str
    version: int | None
    schema: Schema | None
    descriptors: bytes | None
    message: str
    framing: str
    column: str
    register: bool
    validate: bool | None
    max_depth: int = 0
    any_as_json: bool = False

    @classmethod
    def read(cls, format: str, options: Mapping[str, str]) -> Side:
        """Return the options of a decoder.

        :raises OptionError: one is unknown, wrong or missing
        """
        return cls._checked(format, options, writing=False)

    @classmethod
    def write(cls, format: str, options: Mapping[str, str]) -> Side:
        """Return the options of an encoder.

        :raises OptionError: one is unknown, wrong or missing
        """
        return cls._checked(format, options, writing=True)

    @classmethod
    def _checked(cls, format: str, options: Mapping[str, str], writing: bool) -> Side:
        names = known(format, writing)
        for name in options:
            if name not in names:
                raise OptionError(f"the option {name!r} is not known to {format}; known are {', '.join(names)}")
        url = options.get("registry")
        if url is not None:
            try:
                check_urls(resolved(url, "registry", os.environ))
            except ValueError as error:
                raise OptionError(f"the option 'registry' cannot be used: {error}") from error
            if ("registry_user" in options) != ("registry_password" in options):
                raise OptionError("'registry_user' and 'registry_password' go together: give both, or none")
            if "registry_user" in options and "registry_token" in options:
                raise OptionError("'registry_token' contradicts 'registry_user': choose one login")
            if "registry_keyfile" in options and "registry_certfile" not in options:
                raise OptionError("'registry_keyfile' needs 'registry_certfile', the certificate of that key")
            milliseconds(options.get("registry_timeout_ms"))
            _flag(options, "registry_allow_cleartext_credentials")
        column = _one_of(options, "column", ("value", "key"), "value")
        framing = _one_of(options, "framing", (CONFLUENT, HEADER, NONE), CONFLUENT if url else NONE)
        subject = options.get("subject") or (topic_subject(options["topic"], column) if options.get("topic") else "")
        files = [name for name in ("schema_file", "descriptor_file") if name in options]
        cls._check_together(options, url, subject, framing, files)
        schema = Schema(KINDS[format], _text(options, "schema_file")) if "schema_file" in options else None
        return cls(
            format,
            None
            if url is None
            else RegistryOptions(tuple((k, options[k]) for k in ("registry", *_REGISTRY) if k in options)),
            subject if url else "",
            _version(options.get("version", "latest")),
            schema,
            _bytes(options, "descriptor_file") if "descriptor_file" in options else None,
            options.get("message", ""),
            framing,
            column,
            _flag(options, "register") or False,
            _flag(options, "validate"),
            _depth(format, options),
            _flag(options, ANY_AS_JSON) or False,
        )

    @staticmethod
    def _check_together(
        options: Mapping[str, str], url: str | None, subject: str, framing: str, files: list[str]
    ) -> None:
        if url is None:
            alone = [name for name in (*_REGISTRY, "subject", "version", "register") if name in options]
            if alone:
                raise OptionError(f"the option {alone[0]!r} has no meaning without 'registry'")
            if framing != NONE:
                raise OptionError(f"'framing' = {framing!r} needs 'registry', which has the schemas that records name")
            if not files:
                raise OptionError("'registry' is missing, or 'schema_file': one of them must say the schema")
        if len(files) > 1:
            raise OptionError("'descriptor_file' contradicts 'schema_file': give one of them")
        if files and options.get("version", "latest") != "latest":
            raise OptionError(f"'version' contradicts {files[0]!r}: give one of them")
        if url is not None and not subject and not files:
            raise OptionError("'subject' is missing, or 'topic', whose subject is <topic>-value")
        if "register" in options and _flag(options, "register") and files != ["schema_file"]:
            raise OptionError("'register' needs 'schema_file', the schema to add to the subject")


def milliseconds(text: str | None) -> int:
    """Return a time of the registry's options (ms).

    :raises OptionError: it is no positive whole number
    """
    if text is None:
        return _TIMEOUT_MS
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"'registry_timeout_ms' must be a whole number of milliseconds above 0, not {text!r}")
    return int(text)


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = options.get(name, default)
    if value not in allowed:
        raise OptionError(f"{name!r} must be {' or '.join(map(repr, allowed))}, not {value!r}")
    return value


def _flag(options: Mapping[str, str], name: str) -> bool | None:
    value = options.get(name)
    if value is None:
        return None
    if value not in ("true", "false"):
        raise OptionError(f"{name!r} must be 'true' or 'false', not {value!r}")
    return value == "true"


def _depth(format: str, options: Mapping[str, str]) -> int:
    """Return how many levels of a type that contains itself rows have; 0 if such types are refused.

    :raises OptionError: the option is none of Spark's values, or its two names contradict each other
    """
    names = [name for name in (MAX_DEPTH, _AVRO_MAX_DEPTH) if name in options]
    if not names:
        return 0
    texts = {options[name] for name in names}
    if len(texts) > 1:
        raise OptionError(f"{_AVRO_MAX_DEPTH!r} contradicts {MAX_DEPTH!r}: give one of them")
    (text,), most = texts, DEPTHS[format]
    if text not in ("-1", *map(str, range(most + 1))):
        raise OptionError(
            f"{names[0]!r} must be a number from 1 to {most}, or -1 to refuse types that contain themselves, not {text!r}"
        )
    return max(0, int(text))


def recursion_refused(format: str, path: str, name: str) -> SchemaError:
    """Return the error about a type that contains itself, if the options allow none.

    :param path: of the field
    :param name: of the type
    """
    return SchemaError(
        f"{path} is a {name} within a {name}: Spark has no type that contains itself; set the option {MAX_DEPTH!r} to 1 - "
        f"{DEPTHS[format]} to read so many levels of it"
    )


def _version(text: str) -> int | None:
    if text == "latest":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"'version' must be 'latest' or a number from 1 on, not {text!r}")
    return int(text)


def _bytes(options: Mapping[str, str], name: str) -> bytes:
    try:
        return Path(options[name]).read_bytes()
    except OSError as error:
        raise OptionError(f"{name!r}: {options[name]} cannot be read: {error.strerror or error}") from error


def _text(options: Mapping[str, str], name: str) -> str:
    try:
        return _bytes(options, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{name!r}: {options[name]} is no UTF-8") from error


@concealing
def registry_for(options: RegistryOptions) -> Registry:
    """Return this process's registry of these options.

    :raises OptionError: an option is wrong
    :raises ConfigurationError: a reference leads nowhere in this process
    """
    key = (os.getpid(), options)
    given = options.looked_up()
    found = _registries.get(key)
    if found is None or found[0] != given:
        found = _registries[key] = given, options.connect(given, handler)
    return found[1]


class Resolved(NamedTuple):
    """The schema of the rows, as their options name it.

    :param registry: None without one
    :param registered: the version of the subject; None if a file has the schema
    :param schema: None if a file has descriptors
    :param needed: the schemas that it refers to, by name
    """

    registry: Registry | None
    registered: Registered | None
    schema: Schema | None
    needed: dict[str, Schema]


def resolve(side: Side) -> Resolved:
    """Return the schema of the rows; on the driver.

    :raises RegistryError: there is none, or the registry refuses, or does not answer
    """
    registry = None if side.registry is None else registry_for(side.registry)
    registered, schema = None, side.schema
    if registry is not None and schema is None and side.descriptors is None:
        wanted = side.version
        registered = registry.latest(side.subject) if wanted is None else registry.version(side.subject, wanted)
        schema = registered.schema
    return Resolved(registry, registered, schema, {} if registry is None or schema is None else registry.needed(schema))


def warn_of(side: Side, registered: Registered | None, notes: tuple[str, ...]) -> None:
    """Log what of a schema does not become typed columns, as one warning; on the driver, when a query is planned.

    :param registered: the version of the subject; None if a file has the schema
    :param notes: sentences; without any, nothing is logged
    """
    if notes:
        where = "schema_file" if registered is None else f"version {registered.version} of {registered.subject}"
        warn(f"the {side.format} schema of the {side.column} ({where}): {'; '.join(notes)}")
