"""The test suite itself: its budgets and order, what its runs covered, and its seeded bugs."""
