"""The corpus is whole, and reads the same from an archive as from a folder."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from slurm_triage.case import from_files, read
from tests.corpus.load import BUILTIN, HERE, CorpusError, cases, main, write
from tools.pack_corpus import main as pack_main
from tools.pack_corpus import pack

COUNTS = {
    "recorded-22.05": 127,
    "recorded-24.11": 129,
    "recorded-24.11-cgroup2": 13,
    "recorded-26.05": 129,
    "recorded-witnesses": 28,
    "recorded-own": 360,
    "public-cases": 105,
}


@pytest.mark.parametrize("name", BUILTIN)
def test_every_case_has_evidence_and_one_label_outside_its_files(name: str) -> None:
    count = 0
    for case_id, files, label in cases(name):
        count += 1
        assert ("cause" in label) != ("cause_class" in label), case_id
        assert {"expect.toml", "case.toml"}.isdisjoint(n.rsplit("/", 1)[-1] for n in files), case_id
        assert from_files(files).files, case_id
    assert count == COUNTS[name]


def test_an_archive_reads_as_the_folder_it_was_made_of(tmp_path: Path) -> None:
    with tarfile.open(HERE / "recorded-24.11-cgroup2.tar.xz") as tar:
        for member in tar.getmembers():
            target = tmp_path / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            stream = tar.extractfile(member)
            assert stream is not None
            target.write_bytes(stream.read())
    packed = list(cases("recorded-24.11-cgroup2"))
    assert list(cases(tmp_path)) == packed
    for case_id, files, _ in packed:
        on_disk = {f.name: f.text() for f in read(tmp_path / case_id).files}
        assert {f.name: f.text() for f in from_files(files).files} == on_disk, case_id
        assert "../cluster-" in "".join(on_disk)


def test_packing_is_repeatable_and_leaves_links_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "b").mkdir(parents=True)
    (source / "b" / "expect.toml").write_text('cause = "app_error"\n')
    (source / "a.txt").write_bytes(b"\x00\xff")
    (source / "link").symlink_to("/etc/hostname")
    assert pack(source, tmp_path / "1.tar.xz") == 2
    (source / "a.txt").touch()
    assert pack_main([str(source), str(tmp_path / "2.tar.xz")]) == 0
    assert (tmp_path / "1.tar.xz").read_bytes() == (tmp_path / "2.tar.xz").read_bytes()
    with tarfile.open(tmp_path / "1.tar.xz") as tar:
        assert [(m.name, m.mtime, m.uid, m.mode) for m in tar] == [
            ("a.txt", 0, 0, 0o644),
            ("b/expect.toml", 0, 0, 0o644),
        ]
    assert [c[0] for c in cases(tmp_path / "1.tar.xz")] == ["b"]


def test_cases_are_found_at_any_depth_but_not_in_cluster_folders_or_in_cases(tmp_path: Path) -> None:
    for name in ("x/1", "x/1/nested", "x/cluster", "2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "expect.toml").write_text('cause = "app_error"\n')
    (tmp_path / "x/cluster/slurm.conf").write_text("KillWait=4\n")
    (tmp_path / "x/1/nested/job.out").write_text("x\n")
    (tmp_path / "x/cluster/secret.txt").write_text("no\n")
    (tmp_path / "x/1/manifest.toml").write_text('cluster_dir = "../cluster"\n')
    (tmp_path / "2/manifest.toml").write_text('cluster_dir = "../x/cluster"\n')
    found = {case_id: set(files) for case_id, files, _ in cases(tmp_path)}
    assert found == {
        "x/1": {"manifest.toml", "nested/job.out", "../cluster/slurm.conf"},
        "2": {"manifest.toml"},
    }


def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="neither one of"):
        list(cases(tmp_path / "missing"))
    with pytest.raises(CorpusError, match="holds no case"):
        list(cases(tmp_path))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "case.toml").write_text("cause_class = ")
    with pytest.raises(CorpusError, match=r"1/case\.toml"):
        list(cases(tmp_path))
    assert pack_main([str(tmp_path / "missing"), str(tmp_path / "a.tar.xz")]) == 1


def test_cases_are_written_without_their_labels(tmp_path: Path) -> None:
    assert main(["recorded-24.11-cgroup2", "102-oom_batch", "--into", str(tmp_path)]) == 0
    assert (tmp_path / "102-oom_batch" / "kmsg.txt").is_file()
    assert not (tmp_path / "102-oom_batch" / "expect.toml").exists()
    assert (tmp_path / "cluster-a" / "scontrol-config.txt").is_file()
    assert main(["recorded-24.11-cgroup2", "no-such-job", "--into", str(tmp_path)]) == 1


def test_writing_a_case_is_the_inverse_of_reading_it(tmp_path: Path) -> None:
    write({"job.out": b"x\n", "../cluster/slurm.conf": b"KillWait=4\n"}, tmp_path / "job")
    assert (tmp_path / "cluster" / "slurm.conf").read_bytes() == b"KillWait=4\n"
    assert (tmp_path / "job" / "job.out").read_bytes() == b"x\n"
