"""Studies: what people run. An application on the public names of rootpool, not part of the wheel."""
