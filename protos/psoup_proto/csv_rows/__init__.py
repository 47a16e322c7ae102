"""Rows in CSV, as a part of the contract: the service and the command read the same text as the same values.

`records`   the boundaries of records, with their lines
`dialect`   the delimiter and the quote
`values`    the conversion of a column's texts to values, with a reason for each invalid text
`pieces`    the conversion of records to tables, a piece at a time
"""
