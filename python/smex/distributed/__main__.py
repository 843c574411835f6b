"""``python -m smex.distributed FOLDER``: what the processes of a failed run did last."""

import argparse

from smex.distributed.diagnose import diagnose
from smex.errors import SmexValueError

parser = argparse.ArgumentParser(
    prog="python -m smex.distributed",
    description="Compares what the processes of a failed run did last.",
)
parser.add_argument("folder", help="SMEX_FLIGHT_FOLDER, or the folder flight in torchrun's logs")
try:
    print(diagnose(parser.parse_args().folder))
except SmexValueError as error:
    parser.error(str(error))
