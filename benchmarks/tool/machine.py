"""The machine of a run: the processor and the instructions that NumPy and Numba use, memory, versions, commit.

    AMD EPYC 9R14 (znver4; L2 1 MiB a core, L3 32 MiB), 2 cores; NumPy uses X86_V3 X86_V4; Numba znver4 avx2 avx512f

A figure belongs to a processor: a kernel may be four times as slow on the next one, where the same instructions are
made otherwise. In a cloud a machine's own name says little, so the compiler's name of the processor stands beside it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

PACKAGES = ("numpy", "numba", "llvmlite", "pyarrow", "grpcio", "duckdb", "polars", "apsw", "chdb", "pathway")
TOLD = ("sse4.2", "avx", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512vbmi2", "neon", "sve", "sve2")
"""Instruction sets that are told of Numba, if the processor has them: those that kernels of ours become faster with."""

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def machine() -> dict[str, Any]:
    """The facts about this machine that bear on the figures."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "cpu": _model(),
        "cpu_kind": str(llvm.get_host_cpu_name()),
        "caches": _caches(),
        "numpy_uses": numpy_uses(),
        "numba_uses": numba_uses(),
        "huge_pages": _huge_pages(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load_at_start": round(load, 2),
        "commit": _commit(),
    }


def processor(machine: dict[str, Any]) -> str:
    """The processor in a few words: its name, what the compiler calls it, its caches, its cores."""
    inner = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    kind = f"{machine['cpu_kind']}; {inner}" if inner else machine["cpu_kind"]
    return f"{machine['cpu']} ({kind}), {machine['cores']} cores"


def instructions(machine: dict[str, Any]) -> str:
    """Which instruction sets are in use."""
    return f"NumPy uses {' '.join(machine['numpy_uses'])}; Numba {' '.join(machine['numba_uses'])}"


def numpy_uses() -> list[str]:
    """The instruction sets that this NumPy was built for and finds here."""
    simd: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    return [*simd.get("baseline", ()), *simd.get("found", ())]


def numba_uses() -> list[str]:
    """The target of Numba: the processor, and those of its instruction sets that matter to kernels."""
    kind = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    flags = set((llvm.get_host_cpu_features().flatten() if features is None else features).split(","))
    return [kind, *(name for name in TOLD if f"+{name}" in flags)]


def _model() -> str:
    """The name that the processor gives itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _caches() -> dict[str, str]:
    """The sizes of the caches that the first core sees, data alone: {"L2": "1024K"}."""
    sizes = {}
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            sizes[f"L{level}"] = size
    return sizes


def _huge_pages() -> str:
    """Whether the system gives pages of 2 MiB: always, to who asks for them (madvise), or never."""
    text = HUGE_PAGES.read_text() if HUGE_PAGES.exists() else ""
    return text.partition("[")[2].partition("]")[0]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
