"""Which nodes, edges and features a prediction comes from."""
