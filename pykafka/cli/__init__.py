"""kafka-tools, the command line: topics, offsets, lag and groups, and a doctor for connections.

Here alone click and rich are imported, and only when `main` is called.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

EXTRA = "pykafka[cli]"
#: What these two statuses are to every shell: 128 and the signal's number.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> None:
    """Run kafka-tools and exit: 0 for success; 130 after Ctrl-C and 143 after SIGTERM, once all is closed.

    :param arguments: by default those of the process
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from pykafka.cli.app import tools

        tools.main(args=None if arguments is None else list(arguments), prog_name="kafka-tools")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"kafka-tools: {error.name} is not installed; pip install '{EXTRA}' brings all that kafka-tools needs")


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # As an exception, so that every `with` on the way out closes what it has.
    sys.exit(TERMINATED)
