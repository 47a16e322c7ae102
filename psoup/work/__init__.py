"""Work: tools that time, limit, pause and divide long work.

    read ──read_budget──> an error if its time is over        bind, plan ──rest_points──> the host may sleep
    tasks ──runner──> results, on threads of the host

Question: how does the engine work long without a thread and a clock of its own?

Files, in reading order:

    clock          the source of time: a protocol
    rest_points    points at which long work may rest
    read_budget    the budget of one read
    gc_pause       pauses of the garbage collector while Python creates many objects
    runner         independent tasks, one after the other or on threads that the host lends

Never here: a thread, a sleep, a call of the system's clock.
Not for: budgets in messages (`psoup.budgets`), the threads themselves (`psoup_service.host`).
"""
