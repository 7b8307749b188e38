"""`Schema` and `Registered`: what a registry keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass

#: Kinds of schemas, as a registry names them.
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"


@dataclass(frozen=True)
class Reference:
    """A schema that another one uses.

    :param name: by which the text of the other one names it: a type of Avro, a file of Protobuf, a URI of JSON Schema
    :param subject: its subject
    :param version: its version there
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema.

    :param kind: AVRO, PROTOBUF or JSON
    :param text: in the language of its kind; of Protobuf also a descriptor of the file, in base64
    :param references: the schemas that it uses
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    def says_the_same(self, other: Schema) -> bool:
        """Return whether another schema is this one, perhaps with other spaces."""
        return self.kind == other.kind and (self.text == other.text or _bare(self.text) == _bare(other.text))


def _bare(text: str) -> str:
    """Return a text without spaces, and without what else differs between two texts of one JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return "".join(text.split())


@dataclass(frozen=True)
class Registered:
    """A schema in a subject.

    :param subject: the subject
    :param version: its number there, from 1 on
    :param id: its number in the registry, which never becomes another schema's
    :param schema: the schema
    :param guid: its id in every registry; None where the registry has no such ids
    """

    subject: str
    version: int
    id: int
    schema: Schema
    guid: str | None = None


def topic_subject(topic: str, side: str = "value") -> str:
    """Return the subject of a topic's records (TopicNameStrategy).

    :param topic: name of the topic
    :param side: "key" or "value"
    """
    return f"{topic}-{side}"
