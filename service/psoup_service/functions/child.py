"""The process in which functions of the operator run: it loads their modules, says hello, and answers calls.

The process has no data but the arguments of a call. It ends with the service. If a call takes twice its allowed time,
an alarm ends the process. No code of a function can hold that up. Run as `python -m psoup_service.functions.child` with
a socket, the seconds of a call, MiB of memory, and the modules.
"""

from __future__ import annotations

import hashlib
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from psoup.errors import FailedPrecondition, PSoupError
from psoup.expressions.supplied_functions import Supplied
from psoup.functions import load
from psoup_service.functions import messages

_MIB = 1024 * 1024


def digest(modules: Sequence[str]) -> str:
    """A digest of the sources of modules. A child that is started again must have the same digest."""
    whole = hashlib.blake2b(digest_size=16)
    for module in modules:
        file = module if module.endswith(".py") else getattr(sys.modules.get(module), "__file__", None)
        if file and Path(file).is_file():
            whole.update(Path(file).read_bytes())
    return whole.hexdigest()


def hello(modules: Sequence[str]) -> tuple[dict[str, Supplied], bytes]:
    """Load the modules.

    Returns the functions by the texts of their signatures, and the content of the HELLO message.
    """
    try:
        functions = load(modules)
    except PSoupError as problem:
        return {}, messages.text(error=problem.message)
    descriptions = [{"signature": str(each.signature), "cost": each.cost, "about": each.about} for each in functions]
    return {str(each.signature): each for each in functions}, messages.text(
        functions=descriptions, digest=digest(modules)
    )


def answer(functions: dict[str, Supplied], content: bytes) -> tuple[int, bytes | memoryview]:
    """Call a function. Returns the kind and the content of the reply."""
    name, arrays = messages.read_call(content)
    try:
        return messages.VALUES, messages.write_values(functions[name].call(arrays))
    except FailedPrecondition as problem:
        return messages.BROKEN, messages.text(error=problem.message)
    except Exception as problem:
        return messages.RAISED, messages.text(error=f"{type(problem).__name__}: {problem}"[:200])


def main(arguments: Sequence[str]) -> int:
    """Answer calls until the service is gone."""
    end, seconds, memory_mib = socket.socket(fileno=int(arguments[0])), float(arguments[1]), int(arguments[2])
    for number in (signal.SIGINT, signal.SIGTERM):  # the service handles these, and ends this process itself
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mib * _MIB,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
        functions, greeting = hello(arguments[3:])
        messages.send(end, messages.HELLO, greeting)
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _, content = messages.receive(end)
            signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
            kind, reply = answer(functions, content)
            messages.send(end, kind, reply)
    except messages.Gone:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
