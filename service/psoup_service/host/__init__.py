"""The host: one engine, its admission and its store, run by threads and called from asyncio.

    command ──line──> sequencer: prepare ──> committer: log, reply ──> writer: apply, publish
                          └─ binder, spooler: threads for long work      └─ maintainer: a thread for maintenance
    invocation ──reads──> a thread that evaluates over a published snapshot

Question: which thread does a piece of work, and when?

Files and rooms, in reading order:

    host, ports                             the whole, and the methods that it needs of an engine
    worker, threads, runner, frames         a stage's thread; pools of threads; parallel tasks; frames of an error
    room, shared_bytes                      limits on work under way, and on bytes of all tenants
    line, commit_delay                      waiting commands; how long small pushes wait for further ones
    command_facts, jumps                    facts about a command; watermarks past the clock
    sequencer, binder, spooler              commands to events; statements to queries; large pushes to the disk
    committer, errands, writer              the log and replies; its work for other threads; the thread that changes the
                                            engine
    maintainer, background                  the thread of maintenance; budgets of background work
    precautions, fold_notes                 notes of one process for the next
    turns                                   the order of tenants, threads and long work
    reads                                   threads that evaluate answers, and their limits
    standby_host, followed_events           a host that takes its events from a copy, and no commands
    ids                                     IDs and page tokens of clients

Never here: a message of the contract, gRPC.
Not for: decoding of requests (`psoup_service.wire`), checks of credentials (`psoup_service.gate`).
"""
