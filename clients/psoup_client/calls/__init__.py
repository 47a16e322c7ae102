"""The calls of a client, in a class for each group: one for each service of the contract, and two for dumps.

    streams  ingest  queries  answers  statements      the services, in psoup_proto/v1
    server  backup  promotion  attach  cover  webhooks
    tables                                             upserts and deletions by key
    dump  load                                         a stream as files, and back

Each group is a subclass of `psoup_client.session.Session`, and `Client` inherits from all groups. A new call is a
method of its group; a new service is a file here, and a base class in `client.py`.
"""
