"""Where the files of data sets are: looked up in folders, downloaded and unpacked."""

from __future__ import annotations

import glob
import gzip
import hashlib
import http.client
import logging
import os
import shutil
import ssl
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from smex.errors import SmexRuntimeError, SmexValueError

__all__ = ["check_sha1", "download", "extract_archive", "get_download_dir"]

logger = logging.getLogger("smex.graph.data")

_DIGITS = 8 * "[0-9a-f]"
_CHUNK = 1 << 20  # bytes
_TIMEOUT = 30  # seconds without an answer


class Source(NamedTuple):
    """A file to download: its address, its name, and its SHA-256 where that is known."""

    url: str
    name: str
    sha256: str | None = None

    @property
    def is_archive(self) -> bool:
        """Whether it is unpacked after the download."""
        return self.name.endswith((".zip", ".tar", ".tar.gz", ".tgz"))


def get_download_dir() -> str:
    """The folder that data sets are downloaded to: ``$XDG_CACHE_HOME/smex`` or ``~/.cache/smex``.

    Example:
        >>> sg.data.utils.get_download_dir()
        '.../smex'
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(base) / "smex")


def search_folders(raw_dir: str | os.PathLike[str] | None) -> list[Path]:
    """Returns the folders that files are looked for in, in this order.

    The last is where DGL has downloaded to, ``$DGL_DOWNLOAD_DIR`` or ``~/.dgl``.
    """
    shared = os.environ.get("SMEX_DATA")
    of_dgl = os.environ.get("DGL_DOWNLOAD_DIR") or Path.home() / ".dgl"
    return [Path(folder) for folder in (raw_dir, shared, get_download_dir(), of_dgl) if folder]


def find_folder(bases: Sequence[Path], names: Sequence[str], files: Sequence[str]) -> Path | None:
    """Returns the first folder of one of these names that has all files.

    Without files, that exists. DGL's folders have eight digits of a hash behind their names.
    """
    candidates = [
        folder
        for base in bases
        for name in names
        for folder in (base / name, *sorted(base.glob(f"{glob.escape(name)}_{_DIGITS}")))
    ]
    for folder in candidates:
        if folder.is_dir() and all((folder / file).exists() for file in files):
            return folder
    return None


def check_digest(path: str | os.PathLike[str], kind: str, expected: str) -> bool:
    """Returns whether a file has this digest (``sha256``, ``sha1`` or ``md5``)."""
    digest = hashlib.new(kind)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == expected.lower()


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Returns whether a file has this SHA-1."""
    return check_digest(filename, "sha1", sha1_hash)


def download(
    url: str,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool | None = True,
    sha1_hash: str | None = None,
    retries: int = 2,
    verify_ssl: bool = True,
    log: bool = True,
    *,
    verbose: bool = True,
    sha256: str | None = None,
    md5: str | None = None,
) -> str:
    """Downloads a file, checks its digest, and only then puts it in its place.

    Args:
        url: its address.
        path: the file or folder to write; the current folder by default.
        overwrite: whether to download a file that is there; None: if its digest is another.
        sha1_hash: the SHA-1 that it must have.
        retries: how often to try again.
        verify_ssl: whether the server's certificate is checked; what comes from one that is not
            checked is what anybody may have put in between, unless it has a digest.
        log: whether the download is logged.
        verbose: whether a progress bar is shown (where tqdm is installed).
        sha256: the SHA-256 that it must have.
        md5: the MD5 that it must have.

    Returns:
        The file's path.

    Raises:
        SmexRuntimeError: it cannot be had.
        SmexValueError: its digest is another.
    """
    name = url.rstrip("/").rpartition("/")[2]
    target = Path(name if path is None else path).expanduser()
    target = target / name if target.is_dir() else target
    digests = {"sha256": sha256, "sha1": sha1_hash, "md5": md5}
    known = {kind: value for kind, value in digests.items() if value}
    if target.exists() and not overwrite:
        fits = all(check_digest(target, kind, value) for kind, value in known.items())
        if overwrite is False or fits:
            return str(target)
    if log:
        logger.info("downloading %s to %s", url, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        _fetch(url, partial, retries, verbose, verify_ssl)
        for kind, value in known.items():
            if not check_digest(partial, kind, value):
                raise SmexValueError(
                    f"download: {url} has another {kind} than expected, {value}; the file has "
                    "changed or the download was damaged, try again"
                )
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return str(target)


def _fetch(url: str, path: Path, retries: int, verbose: bool, verify_ssl: bool) -> None:
    context = None
    if not verify_ssl:
        logger.warning("downloading %s without checking the server's certificate", url)
        context = ssl._create_unverified_context()
    for attempt in range(retries + 1):
        try:
            answering = urllib.request.urlopen(url, timeout=_TIMEOUT, context=context)
            with answering as answer, open(path, "wb") as file:
                _copy(answer, file, path.name, verbose)
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            refused = isinstance(error, (urllib.error.HTTPError, ValueError))
            if attempt == retries or refused:
                raise SmexRuntimeError(
                    f"download: {url} cannot be had: {error}; check the address and the network, "
                    "or fetch the file by hand"
                ) from error


def _copy(source: Any, target: IO[bytes], name: str, verbose: bool) -> None:
    total = int(source.headers.get("Content-Length") or 0)
    with _progress(total, name, verbose) as bar:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
            bar.update(len(chunk))


class _NoBar:
    """Stands in for tqdm's bar."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def update(self, number: int) -> None:
        """Shows nothing."""


def _progress(total: int, name: str, verbose: bool) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoBar()
    size = total or None
    return tqdm(total=size, desc=name, unit="B", unit_scale=True, disable=not verbose)


def extract_archive(
    file: str | os.PathLike[str], target_dir: str | os.PathLike[str], overwrite: bool = True
) -> None:
    """Unpacks a zip, tar or gz file. What would leave the folder is refused.

    Args:
        file: the archive.
        target_dir: the folder to unpack to.
        overwrite: whether to do so if the folder is there.

    Raises:
        SmexValueError: the file is no such archive, or is damaged.
    """
    source, target = Path(file), Path(target_dir)
    if target.exists() and not overwrite:
        return
    target.mkdir(parents=True, exist_ok=True)
    try:
        if source.name.endswith(".zip"):
            with zipfile.ZipFile(source) as archive:
                archive.extractall(target)
        elif source.name.endswith((".tar", ".tar.gz", ".tgz")):
            with tarfile.open(source) as tar:
                tar.extractall(target, filter="data")
        elif source.name.endswith(".gz"):
            with gzip.open(source) as packed, open(target / source.stem, "wb") as plain:
                shutil.copyfileobj(packed, plain)
        else:
            raise tarfile.TarError("its name ends with none of .zip, .tar, .tar.gz, .tgz, .gz")
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError) as error:
        raise SmexValueError(
            f"extract_archive: {source} cannot be unpacked: {error}; download it again"
        ) from error


def obtain(
    what: str, target: Path, sources: Sequence[Source], files: Sequence[str], verbose: bool
) -> None:
    """Downloads and unpacks what a data set needs into a folder of its own.

    Raises:
        SmexRuntimeError: it cannot be had; the error says where to put the files by hand.
    """
    names = ", ".join(files) if files else "its files"
    reason = "no address to download them from is known"
    try:
        for source in sources:
            path = download(
                source.url,
                target / source.name,
                None,
                retries=0,
                verbose=verbose,
                sha256=source.sha256,
            )
            if source.is_archive:
                extract_archive(path, target)
                os.unlink(path)
        if sources:
            return
    except SmexRuntimeError as error:
        reason = str(error)
    raise SmexRuntimeError(
        f"{what}: expected {names} in {target}, or in a folder of that name in raw_dir or "
        f"$SMEX_DATA, found none; put them there ({reason})"
    )
