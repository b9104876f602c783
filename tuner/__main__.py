"""The `tuner` command, and `python -m tuner`. Importing takes a moment too, in which Ctrl-C is no error."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """The command. Exits with its code; once that is known, Ctrl-C changes nothing any more."""
    try:
        from tuner import cli

        cli.main()
    except KeyboardInterrupt:
        os.write(2, b"tuner: interrupted\n")
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":  # client processes import this module too
    main()
