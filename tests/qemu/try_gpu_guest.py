# SPDX-License-Identifier: BSD-2-Clause
"""What runs in the guests of the tests of `try-gpu`: arguments are the number of replays, the GPU's device, the
folder for its kind, and the functions to call.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping

MANY = "40"  # they take some seconds
EMPTY: Mapping[str, str] = {}
REPLAYS, DEVICE, KIND, *PARTS = sys.argv[1:]
TRY, PROGRAM = "/try", f"./{KIND}/gramophone-gpu"
LIST, EVERY = f"/try/{KIND}/networks.txt", f"/try/{KIND}/all.txt"
SAID: dict[str, list[str]] = {}
PRESSURE = """
while :; do
    dd if=/dev/zero of=/tmp/pressure bs=1M count=300 2>/dev/null
    echo 3 >/proc/sys/vm/drop_caches
    echo 1 >/proc/sys/vm/compact_memory
    rm -f /tmp/pressure
    sleep 4
done
"""


def start(*words: str, environment: Mapping[str, str] = EMPTY) -> int:
    """Start a program as the leader of its own session; what it prints goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    out = os.open("/tmp/said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(TRY)
    try:
        os.execvpe(words[0], words, {**os.environ, **environment})
    finally:
        os._exit(127)


def end(name: str, pid: int) -> None:
    """Wait for a program, and keep what it printed and its status."""
    _, status = os.waitpid(pid, 0)
    with open("/tmp/said", encoding="utf-8", errors="replace") as file:
        SAID[name] = [*file.read().splitlines(), f"status {os.waitstatus_to_exitcode(status)}"]
    print(name, SAID[name], flush=True)


def run(name: str, *words: str, environment: Mapping[str, str] = EMPTY) -> None:
    end(name, start(*words, environment=environment))


def driver() -> str:
    link = f"/sys/bus/platform/devices/{DEVICE}/driver"
    return os.path.basename(os.readlink(link)) if os.path.exists(link) else "none"


def replaying() -> list[int]:
    """Processes that replay many times: the parent first."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", encoding="ascii") as file:
                words = file.read().split("\0")
            if words[:2] == [PROGRAM, "replay"] and "--repeat" in words:
                found.append(int(name))
        except OSError:
            pass
    return sorted(found)


def until(what: Callable[[], bool], seconds: int = 300) -> None:
    for _ in range(seconds * 5):
        if what():
            return
        time.sleep(0.2)


def script(**environment: str) -> int:
    return start("sh", "try-gpu.sh", environment={"TRY_GPU_REPEAT": REPLAYS, **environment})


def cut_off(name: str, cut: Callable[[int], None]) -> None:
    """Start the script, cut it off in the middle of replays, and note who has the GPU in the end."""
    pid = script(TRY_GPU_REPEAT=MANY)
    until(lambda: len(replaying()) == 2)
    time.sleep(0.1)
    cut(pid)
    end(name, pid)
    until(lambda: driver() == "v3d")
    SAID[name].append(f"driver {driver()}")


def networks(*names: str) -> None:
    """Have the script replay these."""
    with open(EVERY, encoding="ascii") as file:
        lines = [line for line in file if line.split(".")[0] in names]
    with open(LIST, "w", encoding="ascii") as file:
        file.writelines(lines)


def moved() -> int:
    with open("/proc/vmstat", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("pgmigrate_success "))


def under_pressure(*names: str, repeat: str) -> None:
    """Replay networks while pages are moved and memory is short; keeps what the script and each program print."""
    networks(*names)
    before = moved()
    stress = start("sh", "-c", PRESSURE)
    lines = SAID.get("pressure", [])
    end("pressure", script(TRY_GPU_REPEAT=repeat))
    SAID["pressure"] += lines
    os.killpg(stress, signal.SIGKILL)
    os.waitpid(stress, 0)
    if os.path.exists("/tmp/pressure"):
        os.unlink("/tmp/pressure")
    for name in names:
        with open(f"/try/result/{name}.txt", encoding="utf-8") as file:
            SAID["pages"] += file.read().splitlines()
    SAID["moved"].append(str(moved() - before))
    print(SAID["pages"], SAID["moved"], flush=True)


def obstacles() -> None:
    replay = (PROGRAM, "replay", f"{KIND}/lenet.sgtr")
    until(lambda: os.path.exists("/dev/dri/renderD128"))  # the driver was bound, and may not be ready yet
    held = start("sh", "-c", "exec sleep 1000 <>/dev/dri/renderD128")
    until(lambda: os.readlink(f"/proc/{held}/fd/0") == "/dev/dri/renderD128")
    run("busy", "sh", "try-gpu.sh", "--check")
    os.kill(held, signal.SIGKILL)
    os.waitpid(held, 0)
    run("not taken", *replay)
    run("take", PROGRAM, "take")
    become = f"import os; os.setuid(1000); os.execv({replay[0]!r}, {list(replay)!r})"
    run("hidden", "sh", "-c", f'ulimit -l unlimited; exec python3.13 -S -c "{become}"')
    with open("/proc/sys/kernel/io_uring_disabled", "w", encoding="ascii") as file:
        file.write("2")
    run("no io_uring", *replay)
    with open("/proc/sys/kernel/io_uring_disabled", "w", encoding="ascii") as file:
        file.write("0")
    os.rename("/dev/mem", "/dev/elsewhere")
    run("no mem", *replay)
    os.rename("/dev/elsewhere", "/dev/mem")
    run("no room", "sh", "-c", f"ulimit -v 16000; {' '.join(replay)}")
    run("small pages", *replay, "--repeat", "3", environment={"GRAMOPHONE_NO_HUGE_PAGE": "1"})
    first = start(*replay, "--repeat", MANY)
    until(lambda: len(replaying()) == 2)
    run("second", *replay)
    run("give back", PROGRAM, "give-back")  # waits for the first
    SAID["first"] = [f"status {os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])}"]
    run("given back", PROGRAM, "give-back")


def cut_offs() -> None:
    networks("lenet")
    cut_off("interrupted", lambda pid: os.killpg(pid, signal.SIGINT))
    cut_off("killed program", lambda pid: os.kill(replaying()[-1], signal.SIGKILL))
    cut_off("killed script", lambda pid: os.kill(pid, signal.SIGKILL))
    with open(f"/try/{KIND}/lenet.sgtr", "rb") as file:
        data = bytearray(file.read())
    data[-1] ^= 1
    with open(f"/try/{KIND}/damaged.sgtr", "wb") as file:
        file.write(data)
    with open(LIST, "w", encoding="ascii") as file:
        file.write("damaged.sgtr prob\n")
    end("damaged trace", script())
    SAID["damaged trace"].append(f"driver {driver()}")


def check() -> None:
    run("check", "sh", "try-gpu.sh", "--check")


def lenet() -> None:
    under_pressure("lenet", repeat=REPLAYS)


def others() -> None:
    """The self-tests, and MobileNet where it is there."""
    with open(EVERY, encoding="ascii") as file:
        every = [line.split(".")[0] for line in file]
    under_pressure(*[name for name in every if name not in ("lenet", "mobilenet")], repeat="2")
    if "mobilenet" in every:
        under_pressure("mobilenet", repeat="1")


def vulkan() -> None:
    run("vulkan", "/job/vadd", "/job/add.spv", "1000", "1")


def main() -> None:
    shutil.copyfile(LIST, EVERY)  # the script asks for it
    SAID.update(pages=[], moved=[])
    try:
        for part in PARTS:
            globals()[part]()
    finally:
        with open("/out/said", "w", encoding="utf-8") as file:
            json.dump(SAID, file)


main()
