"""Download, checking and unpacking of published archives."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

from research.files import cannot_write, whole_file
from research.progress import Progress
from unlabel import UnlabelError

BLOCK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A .tar.gz file: its address, its published checksum, and the folder in it."""

    address: str
    md5: str
    folder: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.address.rsplit("/", 1)[1]


def unpacked(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Return the unpacked folder of an archive, downloading and unpacking it if necessary."""
    target = folder / archive.folder
    if target.is_dir():
        return target
    file = folder / archive.name
    if not file.is_file():
        _download(archive, file, progress)
    _unpack(archive, file, target)
    return target


def _download(archive: Archive, file: Path, progress: Progress) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(file, error) from error
    with whole_file(file) as part:
        try:
            # The address comes from this package.
            with urlopen(archive.address, timeout=60) as source, part.open("wb") as out:  # noqa: S310
                size = int(source.headers.get("Content-Length") or 0)
                while block := source.read(BLOCK):
                    out.write(block)
                    progress(min(out.tell() / size, 1.0) if size else 0.0)
        except (URLError, TimeoutError, ConnectionError) as error:
            raise UnlabelError(
                f"{file} does not exist, and {archive.address} could not be downloaded "
                f"({getattr(error, 'reason', error)}): put the archive, or its folder "
                f"{archive.folder}, into {file.parent}."
            ) from error
        _check(archive, part, archive.address)


def _check(archive: Archive, file: Path, source: str) -> None:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != archive.md5:
        raise UnlabelError(
            f"{source} is not the published archive (md5 {found}, not {archive.md5}): it is "
            "truncated or another file; download it again."
        )


def _unpack(archive: Archive, file: Path, target: Path) -> None:
    _check(archive, file, str(file))
    try:
        with TemporaryDirectory(dir=target.parent) as folder:
            with tarfile.open(file) as tar:
                tar.extractall(folder, filter="data")
            Path(folder, archive.folder).replace(target)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UnlabelError(f"{file} could not be unpacked: {error}.") from error
    except OSError as error:
        raise cannot_write(target, error) from error
