"""Groups of followers: workers share the matches of a stream, and the log keeps what they have confirmed."""
