"""Reads: the threads that evaluate answers, and the limits of each read.

    invocation ──expectations──> event loop, quick read or long read
                 readers ──allowance: time, bytes──> answer ──pins──> chunks held until it is sent

Question: where does a read run, how long may it run, and what memory does it hold?

Files, in reading order:

    readers            threads that evaluate, and reads that wait for them
    expectations       costs of the last invocations, which choose the thread
    allowance          limits of one read, and of all reads together
    archive_speed      measured speed of reading from disk, and the time that it allows
    reads_under_way    limits on the number of reads: waiting, running, set aside
    pins               chunks that streamed answers hold, charged to the memory budget

Never here: an evaluation of its own, a change of the engine, a message of the contract.
Not for: commands (`psoup_service.host.sequencer`), the evaluation (`psoup.answer`).
"""
