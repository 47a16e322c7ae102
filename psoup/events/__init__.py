"""What changes the engine, as values: commands, the events that they become, and what callers are told.

command --prepare (psoup.admission: may refuse)--> event --log--> --apply (psoup.engine: cannot fail)--> effects
"""
