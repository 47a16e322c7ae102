"""Plain HTTP/2 of hostile clients: messages that never end, and frames that no library sends."""
