"""Decisions about rows: which rows of a push are accepted, with which time and once only, and which rows expire.

Begin with `psoup.admission.rows.pushes`.
"""
