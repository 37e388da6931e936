"""Download, checking and unpacking of published archives."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from tarfile import TarError
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from unlabel import UnlabelError


@dataclass(frozen=True)
class Archive:
    """A .tar.gz file: its address, its published checksum, and the folder in it."""

    address: str
    md5: str
    folder: str


def unpacked(archive: Archive, folder: Path) -> Path:
    """Return the unpacked folder of an archive, downloading and unpacking it if necessary."""
    target, file = folder / archive.folder, folder / archive.address.rsplit("/", 1)[1]
    if target.is_dir():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as scratch:
            if not file.is_file():
                part = Path(scratch, file.name)
                # The address comes from this package.
                with urlopen(archive.address, timeout=60) as source, part.open("wb") as out:  # noqa: S310
                    shutil.copyfileobj(source, out)
                _check(archive, part).replace(file)
            shutil.unpack_archive(_check(archive, file), scratch, filter="data")
            Path(scratch, archive.folder).replace(target)
    except (OSError, TarError, EOFError) as error:
        raise UnlabelError(
            f"{target} does not exist, and {archive.address} could not be downloaded and unpacked "
            f"({error}): put the archive, or its folder, into {folder}."
        ) from error
    return target


def _check(archive: Archive, file: Path) -> Path:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != archive.md5:
        raise UnlabelError(
            f"{file.name} is not the published archive (md5 {found}, not {archive.md5}): it is "
            "truncated or another file; download it again."
        )
    return file
