"""The report of a run: what was captured, carried out for real and run uncompiled, as one page of HTML."""
