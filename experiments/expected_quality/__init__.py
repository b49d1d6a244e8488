"""What `voile federate --preview` expects: a study on generated data, and a check on other data."""
