"""Compilation: what all kernels share, and where compiled kernels are kept.

    kernel ──inner, lanes──> machine code ──cache_locators──> a file in a folder, with the stamp of its sources

Files, in reading order:

    inner             helpers that count no references to arrays
    lanes             sixteen elements in one instruction, writes past the caches
    cache_locators    the folder of compiled kernels, and when they are compiled anew

Invariant: a kernel is compiled anew when any file that its code comes from has changed.
Never here: a loop over tuples.
Not for: the list of types that are compiled before a client comes (`psoup.kernel_signatures`).
"""
