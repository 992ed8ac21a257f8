"""Downloads go on where they stopped, are checked, and leave no half-written file."""

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from perfed.data import download as d
from perfed.data.download import RemoteFile
from perfed.errors import DataError

BODY = bytes(range(256)) * 2000  # 512,000 bytes: several blocks


class Shop:
    """A server on the loopback address with one file, and a list of what it was asked."""

    def __init__(self, body=BODY, *, ranges=True, cut=(), tag='"one"'):
        self.body, self.ranges, self.cut, self.tag, self.asked = body, ranges, list(cut), tag, []
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                shop.answer(self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler):
        wanted = handler.headers.get("Range")
        self.asked.append((wanted, handler.headers.get("If-Range")))
        start = 0
        if wanted and self.ranges and handler.headers.get("If-Range") in (None, self.tag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(self.body):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(self.body)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(self.body) - start))
        handler.send_header("ETag", self.tag)
        handler.end_headers()
        end = self.cut.pop(0) if self.cut else len(self.body)
        handler.wfile.write(self.body[start:end])
        handler.close_connection = True

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()

    def remote(self, **more):
        return RemoteFile(url=f"http://127.0.0.1:{self.server.server_port}/set.bin", **more)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def md5(body):
    return hashlib.md5(body).hexdigest()


def names(folder):
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


def test_a_file_arrives_whole_and_progress_counts_its_bytes(tmp_path):
    seen = []
    with Shop() as shop:
        path = d.obtain(shop.remote(md5=md5(BODY)), tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == BODY
    assert names(tmp_path) == ["set.bin"]
    assert seen[-1] == ("set.bin", 512_000, 512_000)
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)


def test_a_file_that_is_there_is_not_fetched_again(tmp_path):
    (tmp_path / "set.bin").write_bytes(BODY)
    with Shop() as shop:
        d.obtain(shop.remote(md5=md5(BODY)), tmp_path)
    assert shop.asked == []


def test_a_connection_that_breaks_is_resumed_at_the_byte_where_it_broke(tmp_path):
    with Shop(cut=[200_000, 300_001]) as shop:
        path = d.obtain(shop.remote(md5=md5(BODY)), tmp_path)
    assert path.read_bytes() == BODY
    assert shop.asked == [(None, None), ("bytes=200000-", '"one"'), ("bytes=300001-", '"one"')]


def test_an_interrupted_download_keeps_its_part_and_a_second_run_goes_on(tmp_path):
    with Shop(cut=[100, 100, 100]) as shop:
        with pytest.raises(DataError, match="ended the connection after 100 of 512,000 bytes of set.bin.*run it again"):
            d.obtain(shop.remote(md5=md5(BODY)), tmp_path)
        assert not (tmp_path / "set.bin").exists()
        assert (tmp_path / "set.bin.part").read_bytes() == BODY[:100]
        d.obtain(shop.remote(md5=md5(BODY)), tmp_path)
    assert (tmp_path / "set.bin").read_bytes() == BODY
    assert names(tmp_path) == ["set.bin"]


def test_stopping_by_hand_leaves_a_part_that_is_resumed(tmp_path):
    def stop(name, arrived, total):
        raise KeyboardInterrupt

    with Shop() as shop:
        with pytest.raises(KeyboardInterrupt):
            d.obtain(shop.remote(), tmp_path, stop)
        size = (tmp_path / "set.bin.part").stat().st_size
        assert 0 < size < len(BODY) and not (tmp_path / "set.bin").exists()
        d.obtain(shop.remote(), tmp_path)
    assert (tmp_path / "set.bin").read_bytes() == BODY
    assert shop.asked[-1][0] == f"bytes={size}-"


def test_a_server_without_ranges_sends_everything_again(tmp_path):
    with Shop(ranges=False, cut=[1000]) as shop:
        path = d.obtain(shop.remote(), tmp_path)
    assert path.read_bytes() == BODY


def test_a_file_that_changed_at_the_server_is_not_glued_to_an_old_beginning(tmp_path):
    (tmp_path / "set.bin.part").write_bytes(b"old" * 100)
    (tmp_path / "set.bin.part.tag").write_text('"zero"')
    with Shop() as shop:
        path = d.obtain(shop.remote(), tmp_path)  # no checksum: only the validator can tell
    assert path.read_bytes() == BODY


def test_a_stale_beginning_is_discarded_when_the_checksum_is_wrong(tmp_path):
    (tmp_path / "set.bin.part").write_bytes(b"old" * 100)
    with Shop() as shop:
        path = d.obtain(shop.remote(md5=md5(BODY)), tmp_path)
    assert path.read_bytes() == BODY


def test_a_part_that_is_already_whole_needs_no_more_bytes(tmp_path):
    (tmp_path / "set.bin.part").write_bytes(BODY)
    with Shop() as shop:
        assert d.obtain(shop.remote(md5=md5(BODY)), tmp_path).read_bytes() == BODY


def test_a_part_that_is_too_long_is_started_anew(tmp_path):
    (tmp_path / "set.bin.part").write_bytes(BODY + b"more")
    with Shop() as shop:
        assert d.obtain(shop.remote(md5=md5(BODY)), tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_wrong_checksum_is_refused_and_nothing_stays(tmp_path, kind):
    with Shop() as shop, pytest.raises(DataError, match=f"its {kind} is [0-9a-f]+, not 00; it was discarded"):
        d.obtain(shop.remote(**{kind: "00"}), tmp_path)
    assert names(tmp_path) == []


def test_a_missing_file_names_the_address_and_the_way_by_hand(tmp_path):
    with Shop() as shop:
        shop.answer = lambda handler: handler.send_error(404)
        with pytest.raises(DataError, match=r"answered 404 Not Found; Bring http://127.0.0.1:\d+/set.bin here"):
            d.obtain(shop.remote(), tmp_path)


def test_without_a_connection_the_sentence_says_so(tmp_path):
    with Shop() as shop:
        remote = shop.remote()
    with pytest.raises(DataError, match="cannot reach 127.0.0.1:.*are you offline"):
        d.obtain(remote, tmp_path)
    assert names(tmp_path) == []


def test_two_processes_do_not_write_the_same_file(tmp_path):
    with d.alone(tmp_path / ".set.bin.lock"), pytest.raises(DataError, match="another process is fetching set.bin"):
        d.obtain(RemoteFile(url="http://127.0.0.1:9/set.bin"), tmp_path)


def packed(kind, members):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            for name, body in members.items():
                archive.writestr(name, body)
    else:
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, body in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
    return out.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_is_unpacked_once_and_then_removed(tmp_path, kind):
    body = packed(kind, {"set/a.txt": b"a", "set/b/c.txt": b"c"})
    with Shop(body) as shop:
        for _ in range(2):
            d.obtain(shop.remote(unpack=True), tmp_path)
    assert (tmp_path / "set/b/c.txt").read_text() == "c"
    assert names(tmp_path) == [".set.bin.unpacked", "set"]
    assert len(shop.asked) == 1


def test_only_the_named_folders_are_unpacked_and_zips_in_zips_are(tmp_path):
    inner = packed("zip", {"clipart/bird/1.jpg": b"1", "clipart/axe/2.jpg": b"2", "__MACOSX/bird/3.jpg": b"3"})
    (tmp_path / "outer.zip").write_bytes(packed("zip", {"bird/inner.zip": inner}))
    d.unpack(tmp_path / "outer.zip", tmp_path, ("bird",))
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jpg")) == ["clipart/bird/1.jpg"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_no_member_of_an_archive_is_written_outside_the_folder(tmp_path, kind):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "bad.archive").write_bytes(packed(kind, {"../escaped.txt": b"x"}))
    if kind == "tar":
        with pytest.raises(DataError, match="cannot be unpacked"):
            d.unpack(inside / "bad.archive", inside)
    else:
        d.unpack(inside / "bad.archive", inside)  # zipfile drops the dots
    assert not (tmp_path / "escaped.txt").exists()


def test_a_truncated_archive_leaves_no_files_behind(tmp_path):
    whole = gzip.compress(b"x" * 100_000)
    (tmp_path / "data.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be unpacked"):
        d.unpack(tmp_path / "data.gz", tmp_path)
    assert names(tmp_path) == ["data.gz"]


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path / "here"))
    assert d.cache() == tmp_path / "here"
    monkeypatch.delenv("PERFED_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("sys.platform", "linux")
    assert d.cache() == tmp_path / "xdg" / "perfed"


def test_the_name_of_a_file_is_that_of_its_address():
    assert RemoteFile(url="http://127.0.0.1/a/UCI%20HAR.zip?x=1").name == "UCI HAR.zip"
    assert RemoteFile(url="http://127.0.0.1/a/b", file="c.zip").name == "c.zip"
