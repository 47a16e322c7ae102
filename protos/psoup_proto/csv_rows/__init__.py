"""Rows in CSV, as a part of the contract: the service and the command read the same text as the same values.

`records`   the boundaries of records, with their lines
`dialect`   the delimiter and the quote
`values`    the texts of a column become values, or each one that does not fit is named
`pieces`    records become tables, a piece at a time
"""
