"""Expressions: bound trees of operators and functions, and their evaluation a column at a time.

    name, typed arguments ──functions, rules──> Call ──evaluate──> column, with NULL and error marks

Question: what type does an expression have, and what is its value for each row?

Files and rooms, in reading order:

    tree, render                        the bound tree, and its one text
    functions                           all functions: name, number of arguments, typing rule
    rules, rules_texts, rules_times     typing rules, which make each conversion explicit
    conversion, sugar, plainly          conversions between types; other spellings; plain constants of text
    supplied_functions                  functions that the operator of a service adds
    frame, evaluate                     the rows of an evaluation, and the evaluator of each function
    logic, comparisons, conditional     AND and OR; = and IN; CASE and COALESCE
    casts, formats, civil               CAST; values as text; the calendar
    numbers, times, texts               functions of numbers, of times, of texts
    deferral, error_guard               expressions that wait for need; evaluation that survives an error

Never here: a stream, a name of a column, a text of SQL that is not bound.
Not for: factors and their intervals (`psoup.plan`), functions of groups (`psoup.aggregates`).
"""
