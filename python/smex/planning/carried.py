"""How the processes of a plan send each other tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from smex.text import aligned, size_words


@dataclasses.dataclass(frozen=True)
class Carried:
    """What a net's processes send each other in an iteration.

    Attributes:
        processes: number of them.
        ways: by way ("shared memory", "messages", "all-to-all of all", or a collective of torch)
            the relayouts that go so, their packets or calls, and their bytes, of all processes.
        reasons: why packets are used where a collective could be, such as "all_gather: processes
            share memory".
    """

    processes: int
    ways: Mapping[str, tuple[int, int, int]]
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.ways:
            return f"{self.processes} processes send each other nothing"
        rows = [("by", "relayouts", "packets", "bytes")]
        for way, (relayouts, packets, nbytes) in self.ways.items():
            rows.append((way, str(relayouts), str(packets), size_words(nbytes)))
        lines = [f"{self.processes} processes send each other"]
        lines += aligned(rows, right=(1, 2, 3), indent="")
        lines += [f"packets in place of {reason}" for reason in self.reasons]
        return "\n".join(lines)
