"""Top floor: the table, what decides on it, the journal that records it, and the engine that drives it."""
