"""Bytes of training steps: predicted, counted by smex, and counted by the kernel at the links.

    python benchmarks/processes/counters.py [--steps 5] [--rate 1gbit] [--only MLP]

Two and four ranks train in network namespaces of their own (see `emulate`); forward, backward and
AdamW. Predicted is what the plan's program moves in a step, counted what the runtime has counted
while it ran, and the kernel's are the bytes that all ranks' interfaces have sent in a step, without
headers: so with what torch's store and the watchers say. Ends with an error where predicted and
counted are not equal, or the kernel's differ by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import torch
import torch.distributed as dist
from cases import Case, gpt, mlp, rnn, wresnet
from emulate import Counters, emulated, unavailable

import smex

BAR = 0.05
CASES: dict[str, Case] = {
    "MLP, 4 layers of 512, batch 64": mlp(512, 4, 64),
    "WResNet-26-1, 32 × 32, batch 8": wresnet(26, 1, 32, 32, 8),
    "LSTM, 2 layers of 256, 6 steps, batch 32": rnn(2, 256, 6, 32),
    "GPT, 2 layers of 128, 32 tokens, batch 8": gpt(2, 128, 4, 512, 32, 8),
}


def worker(name: str, steps: int) -> None:
    """Trains as one rank; the first prints bytes of a step."""
    torch.set_num_threads(1)
    smex.init_processes()
    case = CASES[name]
    model, batch = case.make()
    # Of a training whose shards are all cut, so that each step moves some megabytes.
    net = smex.partition(model, args=batch, loss_fn=case.loss_fn, replicate_bytes=0)
    opt = torch.optim.AdamW(net.parameters())

    def step() -> None:
        opt.zero_grad()
        net(*batch).backward()
        opt.step()

    step()  # makes its messages' buffers and connections
    dist.barrier()
    before = Counters.read()
    for _ in range(steps):
        step()
    dist.barrier()
    sent = torch.tensor((Counters.read() - before).sent_payload)
    dist.all_reduce(sent)
    stats = net.stats()
    if dist.get_rank() == 0:
        found = {
            "predicted": stats["predicted_bytes_moved"],
            "counted": stats["bytes_moved"],
            "sent": sent.item() / steps,
        }
        print(json.dumps(found))
        sys.stdout.flush()
    dist.barrier()


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.steps)
        return 0
    if problem := unavailable():
        print(f"no namespaces here: {problem}")
        return 0
    print("| model | ranks | predicted | counted | the kernel's | more |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    missed = False
    for name in [name for name in CASES if options.only in name]:
        for ranks in (2, 4):
            with emulated(ranks, options.rate) as hosts:
                command = [sys.executable, __file__, "--worker", name]
                command += ["--steps", str(options.steps)]
                said = hosts.run(command, timeout=300, env={"OMP_NUM_THREADS": "1"})[0]
            found = json.loads(said.splitlines()[-1])
            more = found["sent"] / found["predicted"] - 1
            missed |= found["predicted"] != found["counted"] or abs(more) > BAR
            print(
                f"| {name} | {ranks} | {found['predicted']:,} | {found['counted']:,} | "
                f"{found['sent']:,.0f} | {100 * more:.2f} % |",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    sys.exit(main())
