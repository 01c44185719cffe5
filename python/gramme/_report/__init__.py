"""The report of a run: what was captured, what ran in Python and what ran uncompiled, as one page of HTML."""
