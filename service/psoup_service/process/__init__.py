"""The process of a service: its settings, its clock, and its preparation before the first client.

    flags, variables, files ──> settings_sources ──> settings ──> service
    log, event_loop, allocators, kernel_cache ──> warmup: kernels loaded, libraries run once ──> ready

Files, in reading order:

    settings, settings_sources, setting_values   the values, their sources, and the words about a refused value
    ownership                                    a check of the owner of a file that the operator did not name
    log, event_loop, allocators                  logs, the loop, the memory
    lean, no_pandas                              work that a start leaves out
    kernel_cache, kernel_compiler                compiled kernels: their folder, their compilation by two processes
    kernel_progress, late_kernels                the progress of that, and kernels that are compiled too late
    warmup, rehearsal                            preparation of a start; a trial of it in a process of its own
    clock                                        the guarded clock, the time of the whole service

Never here: a call of a client, an event, a row.
Not for: work that repeats while the service runs (`psoup_service.chores`), metrics (`psoup_service.figures`).
"""
