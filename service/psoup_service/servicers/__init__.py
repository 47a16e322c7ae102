"""The services of psoup.v1, one module each. A servicer turns a request into calls of the host or of `psoup.answer`.

It turns their results into the reply.
"""
