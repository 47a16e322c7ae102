"""PostgreSQL's protocol: clients of PostgreSQL ask, invoke, push and listen by the calls of the contract.

    port ─> connection ─> session ─> statement ─> call of the contract (gate, limits, deadline: as over gRPC)
              messages     settings    sink <──── rows, as Arrow batches
                           transaction

The service imports this package only if the setting `pg_port` opens the port.
"""
