"""Maintenance: tasks that keep structures small and answers ready. A thread computes them, the writer installs."""
