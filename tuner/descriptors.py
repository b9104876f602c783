"""Standard input, output and error as open files, whatever started this process."""

from __future__ import annotations

import os


def open_standard_files() -> None:
    """Point those that are closed (as under cron, or `>&-`) at the null device.

    Otherwise the next file or socket that is opened gets the number of one, and what is printed goes there; libuv
    ends the process when it has to close such a socket.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
