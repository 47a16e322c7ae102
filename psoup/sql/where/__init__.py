"""WHERE, from bound conditions to boolean factors: formulas, intervals, differences of columns."""
