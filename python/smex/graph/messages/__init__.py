"""Message passing: along all edges or some, of one type or several, in buckets or fused."""
