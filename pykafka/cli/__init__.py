"""kafka-tools, the command line: topics, offsets, lag and groups, and a doctor for connections.

Here alone click and rich are imported, and only when `main` is called.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

#: What these two statuses are to every shell: 128 and the signal's number.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> None:
    """Run kafka-tools and exit: 0 for success; 130 after Ctrl-C and 143 after SIGTERM, once all is closed.

    :param arguments: by default those of the process
    """
    signal.signal(signal.SIGTERM, _terminate)
    # Closed by who called it (>&-): what is written then goes nowhere, instead of to what has got the descriptor since.
    sys.stdout = sys.stdout or os.fdopen(_nowhere(), "w")
    sys.stderr = sys.stderr or os.fdopen(_nowhere(), "w")
    try:
        from pykafka.cli.app import tools

        tools.main(args=None if arguments is None else list(arguments), prog_name="kafka-tools")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # writing what was found out, mostly: a full disk; click knows pipes that nobody reads
        _let_go_of_stdout()
        where = f"{error.filename}: " if error.filename is not None else ""
        sys.exit(f"kafka-tools: {where}{error.strerror or error}")
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"kafka-tools: {error.name} is not installed; kafka-tools needs it: pip install click rich")


def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def _let_go_of_stdout() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # What is left in it would fail once more at the interpreter's end, with a status of its own.
        os.dup2(_nowhere(), sys.stdout.fileno())


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # As an exception, so that every `with` on the way out closes what it has.
    sys.exit(TERMINATED)
