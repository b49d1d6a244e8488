"""What every other package stands on."""
