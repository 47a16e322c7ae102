"""The writer: turns events into effects and a snapshot. Readers and admission never import it."""
