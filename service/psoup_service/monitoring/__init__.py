"""Alert rules of Prometheus and a dashboard of Grafana, made from the list of metrics.

    figures.metrics ──families──> names, kinds, meanings ─┬─ alerts ─────> deploy/psoup-alerts.yml
                                                          └─ dashboard ──> deploy/psoup-dashboard.json

Question: which figures should wake an operator, and which help to find the cause?

Never here: a figure. A metric that is added in `figures` gets its panel by itself.
"""
