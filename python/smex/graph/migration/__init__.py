"""The parts of :mod:`smex.graph.migrate`: reading programs, telling what their variables hold."""
