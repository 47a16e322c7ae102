"""All experiments of the papers: their numbers and figures. Those that a run lacks are left out of it by name."""

from __future__ import annotations

PSOUP = "PSoup (VLDB 2002)"
CACQ = "CACQ (SIGMOD 2002)"
UPDATES = "Update patterns (SIGMOD 2005)"
STATIC = "Static optimization (SIGMOD 2004)"
STREAM = "STREAM (CIDR 2003)"
NILE = "Promising tuples (Nile)"

CATALOGUE = {
    "R01": f"{PSOUP}, Figure 7a: equality predicates",
    "R02": f"{PSOUP}, Figure 7b: interval predicates",
    "R03": f"{PSOUP}, Figure 8: an inequality join",
    "R04": f"{PSOUP}, Table 2: the number of intervals",
    "R05": f"{PSOUP}, Figure 9: the rate of arrival",
    "R06": f"{PSOUP}, Figure 11: composite tuples",
    "R07": f"{CACQ}, throughput against tuple state",
    "R08": f"{CACQ}, throughput against queries",
    "R09": f"{CACQ}, throughput against sources",
    "R10": f"{CACQ}, routing",
    "R11": f"{CACQ}, adaptivity, workload 1",
    "R12": f"{CACQ}, adaptivity, workload 2",
    "R13": f"{CACQ}, adaptivity, workload 3",
    "R14": f"{CACQ}, NiagaraCQ: selections and a join",
    "R15": f"{CACQ}, NiagaraCQ: user-defined functions",
    "R16": f"{UPDATES}, Figure 9: query 1, ftp",
    "R17": f"{UPDATES}, Figure 10: query 1, telnet",
    "R18": f"{UPDATES}, Figures 11 to 14: query 2, DISTINCT",
    "R19": f"{UPDATES}, Figure 15: query 3, negation",
    "R20": f"{UPDATES}, Figure 16: query 4, DISTINCT and a join",
    "R21": f"{UPDATES}, Figure 17: query 5, negation and a join",
    "R22": f"{STATIC}, Example 1 and Figure 6: three plans",
    "R23": f"{STATIC}, Figure 7: the need for another plan",
    "R24": f"{STATIC}, Figures 8 and 9: the gain of the best plan",
    "R25": f"{STATIC}, Figure 10: dynamic programming",
    "R26": f"{STREAM}, scheduling",
    "R27": f"{NILE}, Figures 9 and 10: summaries",
    "R28": f"{NILE}, Figures 11 to 14: joins",
    "R29": f"{NILE}, Figures 15 and 16: selections and aggregates",
}
"""Number and figure."""


def left_out(numbers: set[str]) -> dict[str, str]:
    """The experiments that are not among some numbers."""
    return {number: figure for number, figure in CATALOGUE.items() if number not in numbers}
