"""A graph as dense incidence matrices, which layers' formulas are written with."""

import torch


class Dense:
    """Rows of ends and sums over edges as products with matrices of zeros and ones.

    ``src`` ``[E, num_src]`` has a 1 where an edge starts, ``dst`` ``[E, num_dst]`` where it ends.
    """

    def __init__(self, g, dtype=torch.double):
        src, dst = g.edges()
        self.u, self.v = src.long(), dst.long()
        self.num_src, self.num_dst = g.num_src_nodes(), g.num_dst_nodes()
        self.src = torch.nn.functional.one_hot(self.u, self.num_src).to(dtype)
        self.dst = torch.nn.functional.one_hot(self.v, self.num_dst).to(dtype)
        self.adjacency = self.dst.T @ self.src  # [num_dst, num_src]
        self.ins = self.dst.sum(0).unsqueeze(-1)
        self.outs = self.src.sum(0).unsqueeze(-1)

    def at_src(self, x):
        return torch.tensordot(self.src, x, 1)

    def at_dst(self, x):
        return torch.tensordot(self.dst, x, 1)

    def sum(self, message):
        return torch.tensordot(self.dst.T, message, 1)

    def mean(self, message):
        ins = self.ins.clamp(min=1).view(-1, *[1] * (message.dim() - 1))
        return self.sum(message) / ins

    def max(self, message):
        return self._extremum(message, torch.amax)

    def min(self, message):
        return self._extremum(message, torch.amin)

    def _extremum(self, message, function):
        rows = [message[self.v == node] for node in range(self.num_dst)]
        empty = message.new_zeros(message.shape[1:])
        return torch.stack([function(row, 0) if len(row) else empty for row in rows])

    def reduce(self, name, message):
        return getattr(self, name)(message)

    def softmax(self, score):
        mask = self.dst.bool().view(*self.dst.shape, *[1] * (score.dim() - 1))
        grid = score.unsqueeze(1).masked_fill(~mask, -torch.inf)  # [E, num_dst, ...]
        columns = [c for c in range(self.num_dst) if self.ins[c] > 0]
        result = torch.zeros_like(score)
        for c in columns:
            result = result + grid[:, c].softmax(0)
        return result

    def normalised(self, ends=None):
        """D_in^-1/2 A D^-1/2 of a graph whose ends are the same nodes."""
        ends = self.ins if ends is None else ends
        return self.ins.clamp(min=1) ** -0.5 * self.adjacency * ends.clamp(min=1).T ** -0.5
