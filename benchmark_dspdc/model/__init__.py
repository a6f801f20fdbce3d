"""The problem: losses, regularisers, dual rules, and the certificate of a pair (x, y)."""
