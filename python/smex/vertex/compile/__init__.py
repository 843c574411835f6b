"""From a function of one vertex to a program for many: traced, simplified, cut into phases."""
