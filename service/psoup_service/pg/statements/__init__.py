"""Statements of PostgreSQL's clients: each becomes calls of the contract, or a change of the session.

text ─> first word ─┬─ SELECT, WITH, VALUES ─> catalogue, or `selects` ─> Ask, AskStream, Invoke
                    ├─ INSERT, COPY          ─> `pushes`   ─> Push, now or at COMMIT
                    ├─ SET, SHOW, RESET      ─> `settings_statements`
                    ├─ BEGIN … COMMIT        ─> `transactions`: one snapshot, and the rows to push
                    ├─ LISTEN, UNLISTEN      ─> `listening`: Watch
                    └─ any other             ─> 0A000 with its name
"""
