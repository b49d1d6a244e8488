"""FastSHAP++ on the Dutch census with the published split and budgets, and at one total."""
