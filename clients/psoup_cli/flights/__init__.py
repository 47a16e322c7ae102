"""The demo: a year of departures from New York, replayed, and a dozen standing queries about them."""
