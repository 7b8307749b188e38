"""`Noun`: a group of verbs, as `kafka-tools topics`."""

from __future__ import annotations

from typing import Any

import click


class Noun(click.Group):
    """A noun, whose commands are verbs. Alone it shows its help.

    :param name: of the noun
    :param help: what its verbs are about
    """

    def __init__(self, name: str, help: str, **settings: Any) -> None:
        super().__init__(name, help=help, no_args_is_help=True, **settings)
