"""The command line kafka-tools: topics, offsets, lag and groups, and a doctor for connections.

Only this package imports click and rich, and only in `main`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

#: Every shell uses these two statuses: 128 plus the signal's number.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> None:
    """Run kafka-tools and exit: 0 for success; 130 after Ctrl-C and 143 after SIGTERM, once everything is closed.

    :param arguments: by default those of the process
    """
    signal.signal(signal.SIGTERM, _terminate)
    # The caller may have closed it (>&-): write to nothing, and not to a file that has the descriptor by now.
    sys.stdout = sys.stdout or os.fdopen(_nowhere(), "w")
    sys.stderr = sys.stderr or os.fdopen(_nowhere(), "w")
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    try:
        from pykafka.cli.app import tools

        tools.main(args=None if arguments is None else list(arguments), prog_name="kafka-tools")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # mostly an output on a full disk; click handles broken pipes
        _let_go_of_stdout()
        where = f"{error.filename}: " if error.filename is not None else ""
        sys.exit(f"kafka-tools: {where}{error.strerror or error}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("click", "rich"):
            raise
        sys.exit(f"kafka-tools: {package} is not installed; kafka-tools needs it: pip install click rich")


def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def _let_go_of_stdout() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # The rest of the buffer would fail once more at the interpreter's end, with a status of its own.
        os.dup2(_nowhere(), sys.stdout.fileno())


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # An exception lets every `with` close its resources.
    sys.exit(TERMINATED)
