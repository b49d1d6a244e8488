"""The fault loops of the tests, for hundreds of rounds: nothing lost, nothing overspent."""
