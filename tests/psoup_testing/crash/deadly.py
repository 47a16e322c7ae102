"""An expression that ends the process that evaluates it, as the out-of-memory killer does: nothing is raised.

python -m psoup_testing.crash.deadly DIR MIB      the child of `psoup doctor --replay`, which dies of abs(13)
"""

from __future__ import annotations

import os
import signal
import sys

from psoup.expressions.evaluate import EVALUATORS
from psoup.expressions.frame import Frame
from psoup.expressions.tree import Call
from psoup.values.columns import Column

VALUE = 13


def make_deadly(value: int = VALUE) -> None:
    """From now on abs() of this value ends the process."""
    real = EVALUATORS["abs"]

    def deadly(call: Call, frame: Frame) -> Column:
        if value in frame.column(call.args[0]).values:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(call, frame)

    EVALUATORS["abs"] = deadly


if __name__ == "__main__":
    from psoup_service.process.rehearsal import main

    make_deadly()
    sys.exit(main(sys.argv[1:]))
