"""A module of PyKafka 2 (offsets by time): its classes live in `pykafka.compat.messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.protocol import *  # noqa: F403
else:
    __getattr__ = old_names(__name__)
