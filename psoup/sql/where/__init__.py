"""WHERE: bound conditions become boolean factors, by formulas, intervals and differences of columns."""
