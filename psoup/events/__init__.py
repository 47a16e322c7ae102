"""Changes of the engine's state, as values: commands, the events that they become, and acknowledgements for callers.

command --prepare (psoup.admission: may refuse)--> event --log--> --apply (psoup.engine: cannot fail)--> effects
"""
