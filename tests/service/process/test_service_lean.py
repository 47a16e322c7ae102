"""Libraries that a start leaves out: pandas, if it is installed, although it can be imported later."""

import subprocess
import sys

import pytest

_SERVED = """
import os, signal, sys
from contextlib import suppress
from psoup_cli.main import main
with suppress(SystemExit):
    main(["status", "--help"])
from psoup_service.main import serve
from psoup_service.process.settings import Settings

def ready(address):
    print("pandas" in sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)

code = serve(Settings(port=0, metrics_port=-1, data_dir=":memory:"), ready=ready)
import pyarrow as pa
print(len(pa.table({"a": [1, 2]}).to_pandas()))
sys.exit(code)
"""


@pytest.mark.long
def test_a_command_and_a_service_do_without_pandas() -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", _SERVED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split()[-2:]) == (0, ["False", "2"]), done.stderr
    assert done.stdout.lstrip().startswith("Usage: psoup status")
    assert "nothing survives a restart" in done.stderr
    assert ".toml" not in done.stderr, "no settings file was read"
