"""WHERE: turns bound conditions into boolean factors, by formulas, intervals and differences of columns."""
