"""Conversion of callers' columns to Arrow arrays that fit the stream's columns. Errors name the row.

arrays     Arrow's own arrays           ─┐
lists      Python values, via `plain`    ├─> an array of a type that the service takes
frames     pandas: NaN is NULL          ─┘   `misfits`: the errors for values that do not fit, with the way out
"""
