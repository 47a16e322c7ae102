"""Commands about a data directory: `psoup doctor`, `backup`, `restore` and `replica`.

    service ──backup──> copy ──restore──> data directory ──doctor──> report of damage

Question: is the data sound, and is there a second copy?

Files, in reading order:

    doctor    a check of everything in a data directory
    backup    a copy of everything that a service holds, and the way back
    rejoin    a directory whose copy another service took over becomes a standby
    replica   the events that a copy of --replicate can restore, and a check of it

Invariant: `doctor` changes nothing in the directory.
Never here: a repair.
Not for: the checks themselves (`psoup_storage.durable.tools`).
"""
