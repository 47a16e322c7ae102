"""Clients of PostgreSQL's port: sockets that send single messages, scripted sessions, a catalogue, and sample rows."""
