# SPDX-License-Identifier: BSD-2-Clause
"""TUF repositories of signed traces and trust policies: what is published, what is staged, and how that changes.

Facts: https://theupdateframework.github.io/specification/latest/ (1.0.33), by python-tuf, which does all of the
metadata. A folder has `metadata` and `targets`, which a server gives out as they are, and `staged`: what lacks
signatures, or is not published yet.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization import DeserializationError
from tuf.ngclient import FetcherInterface, Updater

from host_tools.extras.publish.tuf_keys import AnySigner, id_of, key_of
from host_tools.support.files import write_atomically
from signing.cose_sign import TAG as POLICY
from signing.delivery import Delivery
from signing.keys import PublicKey
from signing.sign import Signer
from signing.trust_chain import Chain
from trace_format import layout, limits
from trace_format.errors import GramophoneError, listed
from trace_format.files import read_file
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC

TYPES = {"root": Root, "targets": Targets, "snapshot": Snapshot, "timestamp": Timestamp}
STAGED = ("root", "targets")  # that people sign; the others are made when it is published
ONLINE = ("snapshot", "timestamp")
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
Document = Metadata[Root] | Metadata[Targets] | Metadata[Snapshot] | Metadata[Timestamp]


@dataclass(frozen=True)
class Keys:
    """Who signs a role, and how many of them it takes; no keys: as before."""

    keys: Sequence[PublicKey]
    threshold: int = 1


@dataclass(frozen=True)
class Repository:
    """A folder.

    Attributes:
        folder: that one.
    """

    folder: Path

    @classmethod
    def begin(cls, folder: Path, roles: Mapping[str, Keys], expires: datetime.datetime) -> Repository:
        """A new one: the first root and an empty list of targets, both staged.

        Raises:
            GramophoneError: the folder is there, or a role has fewer keys than it takes.
        """
        if folder.exists():
            raise GramophoneError(f"{folder}: exists; a repository in use would be lost")
        repository = cls(folder)
        root = Root(expires=expires, consistent_snapshot=True)
        _set_roles(root, roles)
        for part in ("metadata", "targets", "staged"):
            (folder / part).mkdir(parents=True)
        repository.stage(Metadata(root))
        repository.stage(Metadata(Targets(expires=expires)))
        return repository

    def published(self, role: str) -> Document | None:
        """The newest metadata of a role; None: there is none; GramophoneError where it is malformed."""
        place = self.folder / "metadata"
        if role == "timestamp":
            path = place / "timestamp.json"
            return self._read(path, role) if path.exists() else None
        names = (name.partition(".") for name in self._names())
        versions = [int(version) for version, _, rest in names if rest == f"{role}.json"]
        if not versions:
            return None
        path = place / f"{max(versions)}.{role}.json"
        found = self._read(path, role)
        if found.signed.version != max(versions):
            raise GramophoneError(f"{path}: version: expected that of its name, found {found.signed.version}")
        return found

    def staged(self, role: str) -> Document | None:
        """What is to be published of a role next; None: nothing."""
        path = self.folder / "staged" / f"{role}.json"
        return self._read(path, role) if path.exists() else None

    def root(self) -> Metadata[Root]:
        """The newest root, staged or published; this and `targets`: GramophoneError where there is none."""
        found = self.staged("root") or self.published("root")
        if found is None or not isinstance(found.signed, Root):
            raise GramophoneError(f"{self.folder}: no TUF repository ('gramophone publish tuf init' begins one)")
        return Metadata(found.signed, found.signatures)

    def targets(self) -> Metadata[Targets]:
        """The newest list of targets."""
        found = self.staged("targets") or self.published("targets")
        if found is None or not isinstance(found.signed, Targets):
            raise GramophoneError(f"{self.folder}: a TUF repository without targets")
        return Metadata(found.signed, found.signatures)

    def stage(self, document: Document) -> None:
        """Keep metadata that is to be signed."""
        write_atomically(self.folder / "staged" / f"{document.signed.type}.json", document.to_bytes())

    def change_keys(self, roles: Mapping[str, Keys], expires: datetime.datetime | None) -> None:
        """Stage another root; it takes signatures of enough keys of the root before it, too."""
        root = self._next(self.root(), "root").signed
        assert isinstance(root, Root)
        _set_roles(root, roles)
        root.expires = expires or root.expires
        self.stage(Metadata(root))
        if roles["targets"].keys:  # other keys must sign the list, too
            self.change_targets((), (), None)

    def change_targets(
        self, files: Sequence[Path], removed: Sequence[str], expires: datetime.datetime | None
    ) -> None:
        """Stage another list of targets.

        Args:
            files: that are added, or take the place of those of the same names.
            removed: names of others.
            expires: until when it holds; None: as before.

        Raises:
            GramophoneError: a file that no device takes: an unsigned trace, a policy that lacks signatures; a name
                that is not one of a file alone, or that there is none of.
        """
        targets = self._next(self.targets(), "targets").signed
        assert isinstance(targets, Targets)
        for name in removed:
            if targets.targets.pop(name, None) is None:
                raise GramophoneError(f"{name}: no target; they are: {listed(targets.targets)}")
        names = [path.name for path in files]
        if twice := [name for name in names if names.count(name) > 1]:
            raise GramophoneError(f"{twice[0]}: two files of this name")
        contents = [_checked_target(path) for path in files]
        for path, data in zip(files, contents, strict=True):
            digest = hashlib.sha256(data).hexdigest()
            write_atomically(self.folder / "targets" / f"{digest}.{path.name}", data)
            targets.targets[path.name] = TargetFile(len(data), {"sha256": digest}, path.name)
        targets.expires = expires or targets.expires
        self.stage(Metadata(targets))

    def to_be_signed(self, role: str, public: PublicKey) -> tuple[Document, bytes]:
        """What is staged of a role, and the bytes that a key signs of it.

        Raises:
            GramophoneError: nothing is staged, or the key has no part in it.
        """
        root, document = self.root(), self.staged(role)
        if document is None:
            raise GramophoneError(f"{self.folder}: nothing of {role} is staged: all of it is published")
        known = set(root.signed.roles[role].keyids)
        before = self.published("root") if role == "root" else None
        if before is not None and isinstance(before.signed, Root):
            known |= set(before.signed.roles["root"].keyids)
        if key_of(public).keyid not in known:
            raise GramophoneError(
                f"{self.folder}: key {public.kid.hex()} does not sign {role}: of the keys that do, the ids are "
                f"{listed(sorted(known))}, and its is {key_of(public).keyid}"
            )
        return document, document.signed_bytes

    def sign(self, role: str, signer: Signer) -> None:
        """Add a signature; GramophoneError as `to_be_signed`, SignerError where the signer gives no good one."""
        document, _ = self.to_be_signed(role, signer.public)
        document.sign(AnySigner(signer), append=True)
        self.stage(document)

    def missing(self) -> Iterator[str]:
        """What lacks signatures, in words."""
        root = self.root()
        if self.staged("root"):
            before = self.published("root")
            previous = before.signed if before is not None and isinstance(before.signed, Root) else None
            found = root.signed.get_root_verification_result(previous, root.signed_bytes, root.signatures)
            for one, what in ((found.first, "the root before it"), (found.second, "its own root")):
                if one.missing and (previous or what == "its own root"):
                    version, count = root.signed.version, len(_all(one))
                    yield f"root version {version}: {one.missing} of the {count} keys of {what}"
        targets = self.targets()
        result = root.signed.get_verification_result("targets", targets.signed_bytes, targets.signatures)
        if result.missing:
            yield f"targets version {targets.signed.version}: {result.missing} of {len(_all(result))} keys"

    def publish(self, signer: Signer, expires: datetime.datetime) -> None:
        """Make snapshot and timestamp, look at all of it as a client does, and put it in place.

        Args:
            signer: of the online key.
            expires: until when clients take it for the newest there is.

        Raises:
            GramophoneError: signatures are missing, the key is another, or a client would not take it.
        """
        if lacking := list(self.missing()):
            raise GramophoneError(f"{self.folder}: signatures are missing: {'; '.join(lacking)} ('tuf sign')")
        root, targets = self.root(), self.targets()
        online = key_of(signer.public).keyid
        for role in ONLINE:
            if online not in root.signed.roles[role].keyids:
                raise GramophoneError(f"{self.folder}: key {signer.public.kid.hex()} does not sign {role}")
        snapshot = Metadata(Snapshot(self._version("snapshot"), expires=expires))
        snapshot.signed.meta["targets.json"] = MetaFile(targets.signed.version)
        snapshot.sign(AnySigner(signer))
        data = snapshot.to_bytes()
        timestamp = Metadata(Timestamp(self._version("timestamp"), expires=expires))
        timestamp.signed.snapshot_meta = MetaFile.from_data(snapshot.signed.version, data, ["sha256"])
        timestamp.sign(AnySigner(signer))
        staged: list[Document] = [
            document for document in (self.staged("root"), self.staged("targets")) if document
        ]
        new = {f"{one.signed.version}.{one.signed.type}.json": one.to_bytes() for one in (*staged, snapshot)}
        new["timestamp.json"] = timestamp.to_bytes()  # last: from then on clients take the others
        self.check(new)
        for name, content in new.items():
            write_atomically(self.folder / "metadata" / name, content)
        for role in STAGED:
            (self.folder / "staged" / f"{role}.json").unlink(missing_ok=True)

    def check(self, new: Mapping[str, bytes] | None = None) -> None:
        """Look at it as a client does that has only the first root.

        Args:
            new: metadata that is not there yet, by name.

        Raises:
            GramophoneError: a client would refuse it, or one of the targets.
        """
        fetcher = _Folder(self.folder / "metadata", new or {})
        try:
            with tempfile.TemporaryDirectory(prefix="gramophone-") as kept:
                client = Updater(kept, "folder:", fetcher=fetcher, bootstrap=fetcher.content("1.root.json"))
                client.refresh()
                for name in self.targets().signed.targets:
                    target = client.get_targetinfo(name)
                    assert target is not None
                    path = self.folder / "targets" / f"{target.hashes['sha256']}.{name}"
                    target.verify_length_and_hashes(read_file(path, limits.FILE_BYTES))
        except (RepositoryError, DownloadError) as error:
            raise GramophoneError(f"{self.folder}: clients would refuse it: {error}") from None

    def _names(self) -> list[str]:
        try:
            names = [path.name for path in (self.folder / "metadata").iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            raise GramophoneError(
                f"{self.folder}: no TUF repository ('gramophone publish tuf init' begins one)"
            ) from None
        return [name for name in names if re.fullmatch(r"[1-9][0-9]{0,8}\.[a-z]+\.json", name)]

    def _read(self, path: Path, role: str) -> Document:
        try:
            found: Document = Metadata.from_bytes(read_file(path, limits.SMALL_BYTES))
        except DeserializationError as error:
            text = f"{error.__cause__ or error}"
            raise GramophoneError(f"{path}: not TUF metadata ({text or 'malformed'})") from None
        if not isinstance(found.signed, TYPES[role]):
            raise GramophoneError(f"{path}: expected metadata of {role}, found {found.signed.type}")
        if isinstance(found.signed, Root):
            _check_ids(found.signed, path)
        return found

    def _next(self, document: Document, role: str) -> Document:
        """The same one version on, without signatures; what is staged stays the version that it is."""
        before = self.published(role)
        document.signed.version = before.signed.version + 1 if before else 1
        return document

    def _version(self, role: str) -> int:
        before = self.published(role)
        return before.signed.version + 1 if before else 1


def _check_ids(root: Root, path: Path) -> None:
    """GramophoneError where a key has another id than its own: under two ids one person could sign for two."""
    for keyid, key in root.keys.items():
        try:
            own = id_of(key)
        except (GramophoneError, ValueError, KeyError, TypeError, AttributeError):
            raise GramophoneError(f"{path}: key {keyid}: expected one that traces can have") from None
        if own != keyid:
            raise GramophoneError(f"{path}: id of a key: expected {own}, found {keyid}")


class _Folder(FetcherInterface):
    """Metadata of a folder, and some that is not there yet, instead of a server."""

    def __init__(self, folder: Path, new: Mapping[str, bytes]) -> None:
        self.folder = folder
        self.new = new

    def content(self, name: str) -> bytes:
        """Bytes of a file; DownloadHTTPError where there is none."""
        if name in self.new:
            return self.new[name]
        path = self.folder / name
        if not path.is_file():
            raise DownloadHTTPError(f"{path}: is missing", 404)
        return read_file(path, limits.SMALL_BYTES)

    def _fetch(self, url: str) -> Iterator[bytes]:
        return iter([self.content(url.rpartition("/")[2])])


def _set_roles(root: Root, roles: Mapping[str, Keys]) -> None:
    for role, given in roles.items():
        if not given.keys:
            continue
        keys = {key_of(public).keyid: key_of(public) for public in given.keys}
        if len(keys) < given.threshold:
            raise GramophoneError(f"{role}: expected at least {given.threshold} keys, found {len(keys)}")
        for keyid in list(root.roles[role].keyids):
            root.revoke_key(keyid, role)
        for key in keys.values():
            root.add_key(key, role)
        root.roles[role].threshold = given.threshold


def _checked_target(path: Path) -> bytes:
    """The content of a file that clients may get."""
    if not _NAME.fullmatch(path.name):
        raise GramophoneError(f"{path}: as a target's name expected letters, digits and ._+-, found {path.name!r}")
    data = read_file(path, limits.FILE_BYTES)
    with layout.naming(str(path)):
        if data.startswith(SIGNED_MAGIC):
            Delivery(data).check()
        elif data.startswith(TRACE_MAGIC):
            raise GramophoneError(f"{path}: a trace that is not signed: no device takes it")
        elif data.startswith(POLICY) and (unfinished := Chain.decode(data).unfinished()):
            version = unfinished[0].policy.version
            raise GramophoneError(
                f"{path}: version {version} of the trust policy lacks signatures: no device takes it"
            )
    return data


def _all(result: object) -> set[str]:
    """Ids of all keys of a role."""
    return {*getattr(result, "signed", ()), *getattr(result, "unsigned", ())}
