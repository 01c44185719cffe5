"""Small programs of five further libraries: a layer, a loss, a function each. ``outcomes.py`` runs them."""
