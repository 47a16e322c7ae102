"""The engine: its writer turns events into effects and snapshots. Readers and admission never import this package."""
