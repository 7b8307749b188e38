"""The exit statuses of a program that a signal ended."""

from __future__ import annotations

import signal

#: Every shell uses these two statuses: 128 plus the signal's number.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
