"""Commands about queries: `psoup check`, `register`, `invoke` and six more.

    statement ──check──> columns, windows, plan ──register──> ID ──invoke──> answer

Question: what does a statement answer, now or as a standing query?

Files, in reading order:

    check         the plan of a statement, without registration
    register      one standing query, or one for each row of parameters
    invoke        answers of standing queries
    ask           the answer of a SELECT that is not registered
    sql           statements of any kind, from a file
    queries       the list of standing queries
    explain       the way in which the service keeps a query
    top           the queries with the highest costs
    unregister    removal of queries

Never here: a call that the SDK lacks.
Not for: formats of rows on the terminal (`psoup_cli.output`).
"""
