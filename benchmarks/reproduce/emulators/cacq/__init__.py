"""CACQ's eddy and filters, and the plans of CACQ and NiagaraCQ for a join."""
