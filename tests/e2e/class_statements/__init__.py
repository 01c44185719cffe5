"""Functions that make classes, rightly and wrongly: what `type.__new__`, metaclasses and hooks do, do not do, or raise.

Each is called with a tensor and a list to which it writes what it did.
"""

from e2e.class_statements import bases, bodies, cells, keywords, library, metaclasses, names, namespaces, ways
from e2e.class_statements.common import PROGRAMS

__all__ = ["PROGRAMS", "bases", "bodies", "cells", "keywords", "library", "metaclasses", "names", "namespaces", "ways"]
