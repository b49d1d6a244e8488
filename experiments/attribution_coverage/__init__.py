"""How often do the 95% intervals of sampled attributions hold the truth?"""
