"""What ``import dgl`` finds in processes of a program that ``python -m smex.graph.run`` runs."""

from smex.graph.alias import install

install()
