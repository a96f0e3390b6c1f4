#!/usr/bin/python3
"""Run a conversion and print how much anonymous memory it took at most, and its rate.

    convert_memory.py KDA convert FOLDER -o OUT.gguf --type q4_k_m [...]

Anonymous memory is what a process really takes; pages of mapped files can be dropped at any time. Linux only.
"""
import os
import subprocess
import sys
import time


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main():
    begin = time.monotonic()
    process = subprocess.Popen(sys.argv[1:])
    most = 0
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.05)
    seconds = time.monotonic() - begin
    cpu = os.times()
    print(f"exit status {process.returncode}, anonymous memory at most {most / 1e6:.1f} MB, "
          f"{seconds:.1f} s, {cpu.children_user + cpu.children_system:.1f} s of processor time")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
