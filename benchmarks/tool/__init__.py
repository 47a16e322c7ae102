"""The tool that measures: runs, samples, rows, reports, the machine, and servers in processes of their own.

run ──> measure: samples in turns ──> Row ──> report: table, JSON, Markdown
 └── processes, empty_service: what is measured over a socket      machine: where it ran
"""
