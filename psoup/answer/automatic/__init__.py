"""AUTO: the choice of an amount for each AUTO query, in rounds of ten seconds, for all of them as columns.

The pairs of a join of two streams may be kept with PARTIAL, so there are four choices.

    counters, notes of readers ──observations──> Observed ──cost_model──> seconds per second, for each choice
                                                                                 │ decisions
    engine <──install── AmountChoice <──rounds── half the cost, three rounds in a row; it pays for itself

A round changes no answer: any choice is right, and a bad one only costs time. So observations are estimates.
"""
