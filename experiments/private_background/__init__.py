"""What a private background costs in accuracy, and whether its intervals hold."""
