"""CACQ (SIGMOD 2002): throughput, routes, adaptivity, and NiagaraCQ beside it."""
