"""The writer: events in, effects and a snapshot out. Readers and admission never import it."""
