"""Samples of graphs: neighbours, random walks and negative edges, with DGL's names.

Every function draws from torch's generator (``torch.manual_seed``): the same seed gives the same
sample, for any number of threads. Graphs are on the CPU.
"""

from smex.graph.sampling.biased import sample_neighbors_biased
from smex.graph.sampling.fused import sample_neighbors_fused
from smex.graph.sampling.labor import sample_labors
from smex.graph.sampling.negative import global_uniform_negative_sampling
from smex.graph.sampling.neighbor import sample_etype_neighbors, sample_neighbors, select_topk
from smex.graph.sampling.pinsage import PinSAGESampler, RandomWalkNeighborSampler
from smex.graph.sampling.walks import node2vec_random_walk, pack_traces, random_walk

__all__ = [
    "PinSAGESampler",
    "RandomWalkNeighborSampler",
    "global_uniform_negative_sampling",
    "node2vec_random_walk",
    "pack_traces",
    "random_walk",
    "sample_etype_neighbors",
    "sample_labors",
    "sample_neighbors",
    "sample_neighbors_biased",
    "sample_neighbors_fused",
    "select_topk",
]
