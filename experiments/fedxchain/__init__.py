"""FedXChain: its Tables I and II and figures, robustness, growth, and the price of privacy.

    python -m experiments.fedxchain [--quick] [--kept FOLDER] [part ...]

Parts: `tables`, `robustness`, `stable`, `price`, `growth`, `private` (needs
`VOILE_DATA`). Every run is kept in FOLDER under what it depends on, so a command that is broken off
goes on where it was. Seeds 11 to 15 are reported (growth: 11 to 13, private: 11 to 20);
learning rates were chosen on seeds 0 to 4 of breast cancer, one for each model.
"""
