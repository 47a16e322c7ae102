"""Statements of PostgreSQL's clients: each becomes calls of the contract, or a change of the session.

SELECT, WITH, VALUES ─> the catalogue, or `selects`: Ask, AskStream, Invoke
INSERT, COPY         ─> `writing`: Push, at once or at COMMIT
BEGIN, COMMIT        ─> `transactions`: one snapshot
SET, SHOW, RESET     ─> `settings_statements`
LISTEN, UNLISTEN     ─> `subscriptions`: Watch
any other            ─> 0A000 with its name
"""
