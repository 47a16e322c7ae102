"""The services of psoup.v1, one module each: messages in, calls of the host or the answers, messages out."""
