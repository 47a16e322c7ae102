"""Promising tuples (Nile): summaries, joins, selections."""
