"""Columns of callers -> arrays of Arrow that fit the column of a stream, or an error that names the row.

arrays     Arrow's own arrays           ─┐
lists      Python values, via `plain`    ├─> an array of a type that the service takes
frames     pandas: NaN is NULL          ─┘   `misfits`: what is wrong with a value, and the way out
"""
