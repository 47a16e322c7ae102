"""The calls of a client, in a class for each group: one for each service of the contract, and one for dumps.

    streams  ingest  queries  answers  statements      the services, in psoup_proto/v1
    server  backup  attach  cover
    dump  load                                         a stream as files, and back

Each group stands on `psoup_client.session`; `psoup_client.client` puts them together. A new call is a method of its
group; a new service is a file here, and a line in `client.py`.
"""
