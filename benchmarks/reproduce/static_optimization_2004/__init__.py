"""Static optimization (SIGMOD 2004): example 1, figures 6 to 10."""
