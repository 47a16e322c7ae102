"""PostgreSQL's protocol: psql, drivers and BI tools read, write and listen by the calls that gRPC clients make.

    port ─> connection ─> session ─> statement ─> call of the contract (gate, limits, deadline: as over gRPC)
              messages     settings    sink <──── rows, as Arrow batches
                           transaction

The service imports this package only if the setting `pg_port` opens the port.
"""
