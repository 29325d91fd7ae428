"""packaging/place.sh: what Slurm calls is never missing while its configuration names it, and nothing else is left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = "usr/lib/slurm-triage"
EPILOG, CTLD, PLUGIN = "slurm-triage-epilog", "slurm-triage-epilogslurmctld", "slurm_triage.so"


def place(root: Path, *words: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "packaging/place.sh"), *words]
    environment = {"PATH": path, **({"DESTDIR": str(root)} if root != Path("/") else {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host on which all three are in their place."""
    shipped = tmp_path / LIBRARY / "shipped"
    shipped.mkdir(parents=True)
    for name in (EPILOG, CTLD, PLUGIN):
        (shipped / name).write_text("#!/bin/sh\nexit 3\n")
        assert place(tmp_path, "put", name).returncode == 0
    return tmp_path


def configured(root: Path, file: str, text: str) -> None:
    conf = root / "etc/slurm" / file
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(text)


def test_put_replaces_by_rename(root: Path) -> None:
    target = root / LIBRARY / EPILOG
    assert target.stat().st_mode & 0o777 == 0o755
    with target.open() as old:
        (root / LIBRARY / "shipped" / EPILOG).write_text("new")
        place(root, "put", EPILOG)
        assert (old.read(), target.read_text()) == ("#!/bin/sh\nexit 3\n", "new")
    assert sorted(path.name for path in (root / LIBRARY).iterdir()) == ["shipped", EPILOG, CTLD, PLUGIN]


@pytest.mark.parametrize("name", [EPILOG, CTLD, PLUGIN])
@pytest.mark.parametrize(
    "text",
    ["", "# Epilog=/usr/lib/slurm-triage/{}\n", "Epilog=/usr/lib/slurm-triage/{}-of-another\n", "Epilog=/x/{}\n"],
)
def test_away_leaves_nothing_that_is_not_called(root: Path, name: str, text: str) -> None:
    configured(root, "slurm.conf", "ClusterName=x\n" + text.format(name))
    done = place(root, "away", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (root / LIBRARY / name).exists()


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        (EPILOG, "slurm.conf", "Epilog=/usr/lib/slurm-triage/slurm-triage-epilog"),
        (EPILOG, "conf.d/nodes.conf", "ClusterName=x Epilog=/usr/lib/slurm-triage/slurm-triage-epilog # ours"),
        (CTLD, "slurm.conf", "EpilogSlurmctld = /usr/lib/slurm-triage/slurm-triage-epilogslurmctld"),
    ],
)
def test_a_hook_that_slurm_calls_becomes_one_that_does_nothing(root: Path, name: str, file: str, line: str) -> None:
    configured(root, file, line + "\n")
    done = place(root, "away", name)
    assert done.returncode == 0 and f"/etc/slurm/{file}:1:" in done.stderr
    assert subprocess.run([root / LIBRARY / name], check=False, timeout=60).returncode == 0
    assert place(root, "put", name).returncode == 0  # installed again it is itself
    assert subprocess.run([root / LIBRARY / name], check=False, timeout=60).returncode == 3


def test_the_other_hook_is_not_kept_for_it(root: Path) -> None:
    configured(root, "slurm.conf", f"EpilogSlurmctld=/usr/lib/slurm-triage/{CTLD}\n")
    place(root, "away", EPILOG)
    assert not (root / LIBRARY / EPILOG).exists()


def test_a_link_in_a_folder_of_hooks_counts(root: Path) -> None:
    """Epilog=/etc/slurm/epilog.d/*: a link that leads nowhere would fail the end of every job."""
    (root / "etc/slurm/epilog.d").mkdir(parents=True)
    (root / "etc/slurm/epilog.d/50-triage").symlink_to(f"/{LIBRARY}/{EPILOG}")
    place(root, "away", EPILOG)
    assert (root / LIBRARY / EPILOG).exists()


def test_the_plugin_stays_as_it_is(root: Path) -> None:
    """A `required` line without its plugin would let no job start."""
    configured(root, "plugstack.conf", f"required /usr/lib/slurm-triage/{PLUGIN}\n")
    place(root, "away", PLUGIN)
    assert (root / LIBRARY / PLUGIN).read_text() == "#!/bin/sh\nexit 3\n"


@pytest.mark.parametrize(
    ("scontrol", "kept"),
    [
        (None, False),
        ("exit 1", True),
        ("echo 'ClusterName = x'", False),
        ("echo 'Epilog[0]  = /usr/lib/slurm-triage/slurm-triage-epilog'", True),
    ],
)
def test_what_slurm_itself_says(root: Path, tmp_path: Path, scontrol: str | None, kept: bool) -> None:
    """In doubt it stays. The script is given the root by its text: with DESTDIR it asks nobody."""
    script = tmp_path / "place"
    text = (ROOT / "packaging/place.sh").read_text()
    changed = text.replace("library=$root/usr", f"library={root}/usr").replace(
        'confs="/etc/slurm ', f'confs="{root}/none '
    )
    assert changed.count(str(root)) == 2
    script.write_text(
        changed.replace("/etc/slurm-llnl /usr/local/etc/slurm /run/slurm/conf /var/spool/slurmd/conf-cache", "")
    )
    commands = tmp_path / "bin"
    commands.mkdir()
    if scontrol is not None:
        (commands / "scontrol").write_text(f"#!/bin/sh\n{scontrol}\n")
        (commands / "scontrol").chmod(0o755)
    environment = {"PATH": f"{commands}:/usr/bin:/bin"}
    done = subprocess.run(["sh", script, "away", EPILOG], env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, (root / LIBRARY / EPILOG).exists()) == (0, kept)


@pytest.mark.parametrize("words", [[], ["put"], ["put", "../x"], ["away", "/etc/passwd"], ["spool", "/etc", "root"]])
def test_it_takes_no_other_name(root: Path, words: list[str]) -> None:
    assert place(root, *words).returncode == 1


def test_a_spool_is_made_once_and_left_alone(tmp_path: Path) -> None:
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    spool = tmp_path / "var/spool/slurm-triage"
    assert place(tmp_path, "spool", "/var/spool/slurm-triage", me).returncode == 0
    assert {path.stat().st_mode & 0o777 for path in (spool, *spool.iterdir())} == {0o700}
    assert {path.name for path in spool.iterdir()} == {"tmp", "new", "work", "done", "bad"}
    (spool / "new").rmdir()
    (spool / "new").symlink_to(tmp_path)
    os.chmod(spool, 0o711)  # noqa: PTH101 (what is there may belong to another)
    place(tmp_path, "spool", "/var/spool/slurm-triage", me)
    assert spool.stat().st_mode & 0o777 == 0o711 and (spool / "new").is_symlink()


def test_without_the_user_no_spool(tmp_path: Path) -> None:
    done = place(tmp_path, "spool", "/var/spool/slurm-triage-ctld", "nobody-of-that-name")
    assert done.returncode == 0 and "no user nobody-of-that-name" in done.stderr
    assert not (tmp_path / "var").exists()
