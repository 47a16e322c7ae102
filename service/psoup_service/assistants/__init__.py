"""Assistants: programs that call tools by the Model Context Protocol (MCP), at /mcp on the page's port.

    POST /mcp ─> `Endpoint` (credential, size) ─> the SDK's server ─> a tool, or events ─> calls of the contract

The service imports this package only if the setting `mcp` is true.
"""
