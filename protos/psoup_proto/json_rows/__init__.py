"""Rows in JSON, as a part of the contract: the service and the command read the same text as the same values.

`text`          a text becomes Python values; numbers keep their digits
`numbers`       a number, or the text of one, becomes exactly the value of a column, or is refused
`columns`       the values of a column become an Arrow array, or the first one that does not fit is named
`plain_lines`   lines of plain form become Arrow arrays at once; `times` has the texts of times
"""
