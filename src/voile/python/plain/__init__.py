"""Explaining a model for its owner: any model, any table, and the method that suits them."""
