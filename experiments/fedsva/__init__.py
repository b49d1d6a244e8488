"""FedSVA: Tables 1 and 2 and Figure 2 as published, their cost, and ours at the same number.

    python -m experiments.fedsva [--quick | --long] [--kept FOLDER] [part ...]

Parts: `table`, `controls`, `targets`, `attacks`. Every run is kept in FOLDER under what it depends
on, so a command that is broken off goes on where it was. One model for all of Table 1: a linear
layer over fixed, public filters (pictures) or over encoded columns (Adult), so that methods differ
in their noise alone. Noise of experiments is seeded: utility only, no guarantee.

Settings were chosen on scikit-learn's digits (`freezing.py`), on nothing that is reported here.
"""
