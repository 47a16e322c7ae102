"""Maintenance: tasks that keep structures small and answers ready.

Another thread than the writer's computes a task. The writer installs its result.
"""
