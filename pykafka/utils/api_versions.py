"""Choice of a class by the API versions of a broker, as PyKafka 2 has it. Nothing in this package uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

_FORMAT_1_SINCE = (0, 10)


class ApiVersionAware:
    """Base of documented requests and responses: finds the class for the version that a broker has.

    `Broker` does not use it: each of its connections negotiates the version of each request.
    """

    #: API key of the request, from the Kafka protocol; -1 for none.
    API_KEY: ClassVar[int] = -1

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return {}

    @classmethod
    def get_version_impl(cls, api_versions: Mapping[int, Any] | None) -> type[Any] | None:
        """Return the class for the highest version that both sides have; None if there is none.

        :param api_versions: the broker's, by API key, each with `.max`; nothing stands for version 0
        """
        highest = api_versions[cls.API_KEY].max if api_versions else 0
        versions = cls.get_versions()
        return versions.get(max((version for version in versions if version <= highest), default=-1))


def msg_protocol_version(broker_version: str) -> int:
    """Return the newest message format of PyKafka 2 that a broker takes: 1 since Kafka 0.10, 0 before.

    :param broker_version: such as "0.9.0"
    """
    numbers = tuple(int(part) for part in broker_version.split(".")[:2])
    return 1 if numbers >= _FORMAT_1_SINCE else 0
