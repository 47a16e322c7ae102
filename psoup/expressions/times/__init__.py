"""Times: parts, shifts, buckets and texts of DATE and TIMESTAMP columns, always in UTC.

    TIMESTAMP: microseconds since 1970     DATE: days since 1970     ──a function──> a column

Question: what is the value of a function of times?

Files, in reading order:

    temporal       parts of times, truncation, months and years added
    moments        times made of numbers, time_bucket, strftime
    parse_times    texts as DATE and TIMESTAMP, for CAST
    strptime       texts as times in a given format

Invariant: the calendar is the proleptic Gregorian one, without leap seconds (`psoup.expressions.civil`).
Never here: the time of now, a time zone other than UTC, a loop over rows in Python.
Not for: typing rules (`psoup.expressions.rules_times`), windows (`psoup.plan`).
"""
