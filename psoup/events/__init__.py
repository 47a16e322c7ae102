"""Changes of the engine's state as values: commands, their events, and acknowledgements for callers.

command --prepare (psoup.admission: may refuse)--> event --log--> --apply (psoup.engine: cannot fail)--> effects
"""
