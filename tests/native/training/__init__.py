"""Training programs that look at all of what autograd lets a program see. See `scenario.py`."""
