"""Cursors: answers that a client of PostgreSQL reads in parts, by DECLARE, FETCH, MOVE and CLOSE."""
