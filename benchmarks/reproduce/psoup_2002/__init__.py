"""PSoup (VLDB 2002): figures 7a, 7b, 8, 9 and 11, and table 2."""
