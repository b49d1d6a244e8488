"""How often does the ± on one person's page hold what it is about?"""
