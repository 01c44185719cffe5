"""The test-only bindings of src/api/testing_graph.cpp."""

from typing import Any

import gramme

testing: Any = getattr(gramme._C, "testing", gramme._C)
