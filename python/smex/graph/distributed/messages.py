"""Rows of tensors asked for by messages, between processes that share no memory.

Each process has a thread for each that asks it. Nothing waits for the program: a rank may read and
write the rows of another any number of times, whatever that one does. Connections are plain ones,
not a group of Gloo's: a receive of Gloo's cannot be left, and one that times out closes the
connections to all ranks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex._C import hang_at_end
from smex.errors import RankFailure, SmexRuntimeError
from smex.graph.distributed.files import numbers_of

_HEADER = struct.Struct("<BQQ")  # what is wanted, of which tensor, how many rows
_ANSWER = struct.Struct("<BQ")  # whether it went well, how many bytes follow
_GREETING = struct.Struct("<16sQ")  # the word of these processes, the rank that asks
_READ, _WRITE = 1, 2
_CLOSED = "it has closed the connection"
_LOOK = 0.25
"""Seconds between two looks for a failure of the other rank."""
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR


class Part(NamedTuple):
    """The rows of a tensor that a process serves: of which the first is row `start`."""

    start: int
    rows: Tensor


class Order(NamedTuple):
    """Rows that are wanted of a rank, or written to it.

    Attributes:
        rank: that has them.
        tensor: its number.
        ids: of the rows, int64.
        rows: to be written; None: to be read.
    """

    rank: int
    tensor: int
    ids: Tensor
    rows: Tensor | None = None


def own_address(master: str | None) -> str:
    """Returns the address by which other machines reach this process.

    That of the interface that ``GLOO_SOCKET_IFNAME`` names, as torch's Gloo uses, or else the one
    that leads to the master.
    """
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with probe, contextlib.suppress(OSError):
        if name:
            asked = struct.pack("256s", name.encode()[:15])
            found = fcntl.ioctl(probe.fileno(), _ADDRESS_OF_INTERFACE, asked)
            return socket.inet_ntoa(found[20:24])
        if master:
            probe.connect((master, 9))  # nothing is sent
            return str(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


class Service:
    """Answers other processes from threads of its own.

    Args:
        word: that only these processes know.
        host: address to listen at.
    """

    def __init__(self, word: bytes, host: str):
        self._word = word
        self._parts: dict[int, Part] = {}
        self._open: set[socket.socket] = set()
        hang_at_end()  # an answer may be on its way when the program ends
        self._listener = socket.create_server((host, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        threading.Thread(target=self._listen, name="smex.rows", daemon=True).start()

    def serve(self, number: int, part: Part) -> None:
        """Lets other processes read and write the rows of a tensor."""
        self._parts[number] = part

    def forget(self, number: int) -> None:
        """Serves a tensor no longer."""
        self._parts.pop(number, None)

    def close(self) -> None:
        """Ends all connections."""
        for end in (self._listener, *list(self._open)):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _listen(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:  # closed
                return
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(end)
            threading.Thread(
                target=self._answer_all, args=(end,), name="smex.rows", daemon=True
            ).start()

    def _answer_all(self, end: socket.socket) -> None:
        try:
            with end:
                word, _ = _GREETING.unpack(_received(end, _GREETING.size))
                if not secrets.compare_digest(word, self._word):
                    return  # somebody else's
                while True:
                    self._answer(end)
        except (EOFError, OSError):
            pass  # the other one has left
        finally:
            self._open.discard(end)

    def _answer(self, end: socket.socket) -> None:
        kind, number, count = _HEADER.unpack(_received(end, _HEADER.size))
        ids = torch.empty(count, dtype=torch.int64)
        _receive_into(end, ids)
        part = self._parts.get(number)
        try:
            if part is None:
                (length,) = struct.unpack("<Q", _received(end, 8)) if kind == _WRITE else (0,)
                _received(end, length)
                text = f"tensor {number} is not there (any more)"
                raise LookupError(text)
            if kind == _READ:
                data = numbers_of(part.rows.index_select(0, ids - part.start))
            else:
                _received(end, 8)
                rows = torch.empty((count, *part.rows.shape[1:]), dtype=part.rows.dtype)
                _receive_into(end, rows)
                part.rows.index_copy_(0, ids - part.start, rows)
                data = memoryview(b"")
        except (LookupError, RuntimeError, ValueError) as error:
            told = str(error).encode()
            end.sendall(_ANSWER.pack(0, len(told)) + told)
            return
        end.sendall(_ANSWER.pack(1, len(data)))
        end.sendall(data)


class Asker:
    """Asks other processes, from any thread.

    Args:
        word: that only these processes know.
        rank: of this process.
        addresses: of the services, by rank.
        watcher: tells of failures.
        timeout: seconds that an answer of a rank that lives may take.
    """

    def __init__(
        self,
        word: bytes,
        rank: int,
        addresses: Sequence[tuple[str, int]],
        watcher: Any,
        timeout: float,
    ):
        self._word = word
        self._rank = rank
        self._addresses = addresses
        self._watcher = watcher
        self._timeout = timeout
        self._mine = threading.local()
        self._open: list[socket.socket] = []

    def ask(self, orders: Sequence[Order], like: Tensor) -> list[Tensor | None]:
        """Returns the rows of each order, or None of those that write.

        All are sent before the first answer is awaited: ranks work on them at the same time.

        Args:
            orders: of different ranks.
            like: a tensor of such rows.

        Raises:
            RankFailure: a rank has failed or does not answer.
            SmexRuntimeError: a rank has no such tensor any more.
        """
        for order in orders:
            with self._watched(order.rank):
                self._send(self._end(order.rank), order)
        answers: list[Tensor | None] = []
        for order in orders:
            with self._watched(order.rank):
                answers.append(self._answer(self._end(order.rank), order, like))
        return answers

    def close(self) -> None:
        """Ends all connections."""
        for end in self._open:
            end.close()

    def _end(self, rank: int) -> socket.socket:
        ends: dict[int, socket.socket] = self._mine.__dict__.setdefault("ends", {})
        if rank not in ends:
            end = socket.create_connection(self._addresses[rank], timeout=self._timeout)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(_LOOK)
            end.sendall(_GREETING.pack(self._word, self._rank))
            ends[rank] = end
            self._open.append(end)
        return ends[rank]

    def _send(self, end: socket.socket, order: Order) -> None:
        kind = _READ if order.rows is None else _WRITE
        head = _HEADER.pack(kind, order.tensor, order.ids.shape[0])
        self._send_all(end, order.rank, memoryview(head))
        self._send_all(end, order.rank, numbers_of(order.ids))
        if order.rows is not None:
            data = numbers_of(order.rows)
            self._send_all(end, order.rank, memoryview(struct.pack("<Q", len(data))))
            self._send_all(end, order.rank, data)

    def _send_all(self, end: socket.socket, rank: int, data: memoryview) -> None:
        until = time.monotonic() + self._timeout
        while data:
            try:
                data = data[end.send(data) :]
            except TimeoutError:
                self._look(rank, until)

    def _answer(self, end: socket.socket, order: Order, like: Tensor) -> Tensor | None:
        head = bytearray(_ANSWER.size)
        self._fill(end, order.rank, memoryview(head))
        good, length = _ANSWER.unpack(head)
        if not good:
            text = bytearray(length)
            self._fill(end, order.rank, memoryview(text))
            raise SmexRuntimeError(
                f"DistTensor: expected rows of rank {order.rank}, found that {text.decode()}; "
                "every rank must make and drop the same tensors"
            )
        if order.rows is not None:
            return None
        rows = torch.empty((order.ids.shape[0], *like.shape[1:]), dtype=like.dtype)
        self._fill(end, order.rank, numbers_of(rows) if rows.numel() else memoryview(b""))
        return rows

    def _fill(self, end: socket.socket, rank: int, data: memoryview) -> None:
        until = time.monotonic() + self._timeout
        while data:
            try:
                count = end.recv_into(data)
            except TimeoutError:
                self._look(rank, until)
                continue
            if count == 0:
                raise EOFError(_CLOSED)
            data = data[count:]

    def _look(self, rank: int, until: float) -> None:
        self._watcher.check([rank])
        if time.monotonic() > until:
            text = f"no answer within {self._timeout:g} s"
            raise EOFError(text)

    @contextlib.contextmanager
    def _watched(self, rank: int) -> Any:
        """Names the rank whose connection is gone."""
        try:
            yield
        except (EOFError, OSError) as error:
            self._mine.__dict__.get("ends", {}).pop(rank, None)
            text = f"rank {self._rank} gets no rows of it: {error}"
            if not self._watcher.left(rank):
                self._watcher.settle(text, rank=rank)
            until = time.monotonic() + _GRACE
            while time.monotonic() < until:
                self._watcher.check([rank])
                time.sleep(_LOOK)
            text = f"rank {rank} has ended, or closed its graph, while {text}"
            raise RankFailure(text, rank, "", text, "left") from error


_GRACE = 6.0
"""Seconds within which a rank that has left is one that others wait for in vain."""


def _received(end: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    _receive(end, memoryview(data))
    return bytes(data)


def _receive_into(end: socket.socket, tensor: Tensor) -> None:
    if tensor.numel():
        _receive(end, numbers_of(tensor))


def _receive(end: socket.socket, data: memoryview) -> None:
    while data:
        count = end.recv_into(data)
        if count == 0:
            raise EOFError(_CLOSED)
        data = data[count:]
