"""The entry of the `psoup` command.

It imports the other modules late, so that Ctrl-C ends it quietly from the start.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from psoup_cli.extras import lacking
from psoup_cli.process_end import INTERRUPTED, discard_output, repeating_interrupts


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning. The message of RowsNotTaken is shown without the place in the code."""
    from psoup_client import RowsNotTaken

    if issubclass(category, RowsNotTaken):
        print(f"psoup: {message}", file=sys.stderr)
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), end="", file=file or sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal cannot show is not an error
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the command itself reports a failed handshake
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] != ["spark"]:  # Spark's commands may need pandas
            from psoup_service.process.no_pandas import leave_out_pandas

            leave_out_pandas()  # importing it is a third of the start of a command
        from psoup_cli.app import app

        warnings.showwarning = _show
        with repeating_interrupts():
            app(args=given, prog_name="psoup")
    except ModuleNotFoundError as problem:
        if (sentence := lacking(problem, given)) is None:
            raise
        print(f"psoup: {sentence}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("psoup: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()


if __name__ == "__main__":
    main()
