"""Formulas and predictions: step sizes, rates, constants, block sizes. No loop of a method."""
