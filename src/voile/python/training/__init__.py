"""What private estimators are made of: a fit is a command, what was learned a folder in memory."""
