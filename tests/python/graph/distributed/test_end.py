"""A program may end while threads of the package are in torch: it ends in good order."""

import subprocess
import sys

import pytest

SERVED = """
import socket, threading, time
import torch
from smex.graph.distributed import messages

word, count = b"w" * 16, 50000
service = messages.Service(word, "127.0.0.1")
service.serve(0, messages.Part(0, torch.zeros(count, 64)))
ids = torch.arange(count)
asked = messages._HEADER.pack(messages._READ, 0, count) + bytes(messages.numbers_of(ids))
answered = threading.Event()

def ask():
    with socket.create_connection(service.address) as end:
        end.sendall(messages._GREETING.pack(word, 1))
        while True:
            end.sendall(asked)
            left = messages._ANSWER.size + count * 64 * 4
            while left:
                left -= len(end.recv(min(left, 1 << 20)))
            answered.set()

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
assert answered.wait(60)
"""

LOADED = """
import torch
import smex.graph as sg

g = sg.rand_graph(20000, 200000)
sampler = sg.dataloading.NeighborSampler([10, 10])
loader = sg.dataloading.DataLoader(g, torch.arange(20000), sampler, batch_size=4000)
batches = iter(loader)
next(batches)
"""


@pytest.mark.parametrize("program", [SERVED, LOADED], ids=["rows are read", "an epoch goes on"])
def test_program_ends(program):
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr[-2000:]
