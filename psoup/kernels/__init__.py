"""Arrays in, arrays out: the inner loops of the engine, compiled with Numba.

    values --codes--> codes --bitmaps--> prefix bitmaps ─┐
                        ├──────────────────arrive────────┴─> bits of dense rows, sorted runs of pairs
                        └─────────────────postings─────────> pairs, from the tuples that have a required value
    one clause, old rows --select--> mask --columns, pack--> bits, offsets

A kernel knows no type of the engine, logs nothing and raises nothing. Each has a twin of the same name and
signature in `psoup.kernels.plain`, in plain NumPy, against which the tests hold it. All are compiled at their
first call and cached; they release the interpreter's lock and use no threads of their own.
"""
