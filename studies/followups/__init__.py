"""Claims published since the paper."""
