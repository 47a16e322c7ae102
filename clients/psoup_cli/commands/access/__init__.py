"""Commands about access: `psoup admin`, `token`, `tenant` and `audit`.

    admin init ──> first token ──> token: issue, revoke     tenant: create, change, drop
                                             └──────── audit: the log of both

Question: which callers may do what, and which of them did?

Files, in reading order:

    admin     the first access token, also while the service is stopped
    token     access tokens: issue, list, revoke
    tenant    tenants and their quotas
    audit     the audit log: entries, and a check of its chain

Never here: a decision about a call. The service decides (`psoup_service.gate`).
Not for: the token of this terminal (`psoup_cli.secrets`).
"""
