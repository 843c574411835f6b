"""``python -m smex.distributed FOLDER``: what the processes of a failed run did last."""

import argparse

from smex.distributed.diagnose import diagnose

parser = argparse.ArgumentParser(
    prog="python -m smex.distributed",
    description="Compares what the processes of a failed run did last.",
)
parser.add_argument("folder", help="SMEX_FLIGHT_FOLDER, or the folder flight in torchrun's logs")
print(diagnose(parser.parse_args().folder))
