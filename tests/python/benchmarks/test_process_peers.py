"""What smex is compared with over processes trains as one process does."""

import json
import pathlib
import sys
import textwrap

import emulate
import pytest

COMMAND = """
    import json, torch, torch.distributed as dist
    from cases import SMALL
    from peers import PEERS, RefusedError, losses, losses_of_one_process
    from torch.distributed.device_mesh import init_device_mesh
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    found = {}
    for family, case in SMALL.items():
        for name, make in PEERS.items():
            try:
                step = make(case, mesh, "adamw")
            except RefusedError as error:
                found[f"{family} {name}"] = str(error)
                continue
            got = losses(step, 2, mesh)
            found[f"{family} {name}"] = got, losses_of_one_process(case, step.parts, 2, "adamw")
    print(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.costly(cases=0)
@pytest.mark.skipif(
    emulate.unavailable() is not None, reason=f"no emulated hosts: {emulate.unavailable()}"
)
def test_peers_have_the_losses_of_one_process():
    """Half a gradient, or one that is added twice, moves the second loss by more than is allowed."""
    folder = pathlib.Path(emulate.__file__).parent
    path = f"{folder}:{folder.parents[1] / 'examples'}"
    with emulate.emulated(ranks=2) as hosts:
        said = hosts.run(
            [sys.executable, "-c", textwrap.dedent(COMMAND)],
            timeout=200,
            env={"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
    found = json.loads(said[0].splitlines()[-1])
    assert "only support nn.Linear" in found.pop("wresnet TP")
    assert len(found) == 11
    for name, (got, wanted) in found.items():
        change = max(wanted) - min(wanted)
        assert change > 0, name
        assert got == pytest.approx(wanted, rel=0, abs=0.01 * change), name
