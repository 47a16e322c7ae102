"""Changes of the engine's state as values: commands of clients, their events, and acknowledgements for clients.

command --prepare (psoup.admission: may refuse)--> event --log--> --apply (psoup.engine: cannot fail)--> effects
"""
